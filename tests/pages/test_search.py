"""Readers who search for a term of the field find the page of its subject."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.pages.site_search import SiteSearch
from tests.pages.steps import ROOT

PAGES = {
    "GDPR": "guides/erase-personal-data",
    "right to erasure": "about/erasure-guarantees",
    "compaction": "guides/every-night",
    "orphan files": "guides/every-night",
    "time travel": "reference/tables",
    "schema evolution": "reference/schema-contracts",
    "write-audit-publish": "reference/schema-contracts",
    "dead letter": "reference/rejected-records",
    "quarantine": "reference/rejected-records",
    "idempotent": "guides/publish",
    "materialized view": "guides/publish",
    "lineage": "reference/summaries-events-metrics",
    "webhook": "reference/summaries-events-metrics",
    "backup": "guides/back-up-and-move",
    "change data capture": "guides/databases",
}
"""The page of each term."""
FIRST = 3
"""How many results a reader looks at."""


@pytest.fixture(scope="module")
def search(
    processes: None, long_runs: None, tmp_path_factory: pytest.TempPathFactory
) -> SiteSearch:
    """The search of the whole site, built as ``make docs`` builds it."""
    site = tmp_path_factory.mktemp("site")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (rule,) = re.findall(r"sphinx-build (.*) build/site$", makefile, re.M)
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *rule.replace("auto", "1").split(), str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return SiteSearch(site)


@pytest.mark.parametrize(("term", "page"), PAGES.items())
def test_page_contains_the_words_of_its_term(term: str, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text.lower()))
    assert set(re.findall(r"\w+", term.lower())) <= words


def test_site_search_finds_the_page_of_each_term(search: SiteSearch) -> None:
    found = {term: search.pages(term)[:FIRST] for term in PAGES}
    missed = {
        term: found[term] for term, page in PAGES.items() if f"docs/{page}" not in found[term]
    }
    assert missed == {}


def test_site_search_ranks_pages_of_developers_last(search: SiteSearch) -> None:
    found = search.pages("vacuum")
    guides = [place for place, page in enumerate(found) if page.startswith("docs/guides/")]
    decisions = [place for place, page in enumerate(found) if page.startswith("docs/decisions/")]
    assert max(guides) < min(decisions)


def test_site_search_uses_the_scorer(search: SiteSearch) -> None:
    script = (search.site / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "static" / "scorer.js").read_text(encoding="utf-8") in script
