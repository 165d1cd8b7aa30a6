"""Who searches the pages for a term of the field finds the page of its subject.

The site's search gives the pages that have all words of what is asked, in any order.
"""

from __future__ import annotations

import re

import pytest

from tests.pages.steps import ROOT

PAGES = {
    "GDPR": "guides/erase-personal-data",
    "compaction": "guides/every-night",
    "orphan files": "guides/every-night",
    "time travel": "reference/tables",
    "schema evolution": "reference/schema-contracts",
    "write-audit-publish": "reference/schema-contracts",
    "dead-letter": "reference/rejected-records",
    "idempotent": "guides/publish",
    "materialized view": "guides/publish",
    "lineage": "reference/summaries-events-metrics",
    "backup": "guides/back-up-and-move",
}


@pytest.mark.parametrize(("term", "page"), PAGES.items())
def test_a_term_of_the_field_finds_its_page(term: str, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text.lower()))
    assert set(re.findall(r"\w+", term.lower())) <= words
