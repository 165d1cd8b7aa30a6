"""Every page is in the contents of the site, and every link leads somewhere.

Within the repository that is exact, to the anchor; outside it is at least an address.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.pages.blocks import pages
from tests.pages.steps import ROOT

PAGES = [*pages(), ROOT / "CHANGELOG.md"]
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get, here as on the site."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", one) for one in _headings(text)]
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


def _headings(text: str) -> list[str]:
    return re.findall(r"^#{1,6} (.+)$", text, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            address = urlsplit(link)
            assert address.scheme in ("http", "https"), link
            assert re.fullmatch(r"[\w.-]+\.[a-z]{2,}(:\d+)?", address.netloc), link
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.is_file() and there.is_relative_to(ROOT), f"{page.name}: {link}"
        if anchor and there.suffix == ".md" and anchor not in anchors(there):
            raise AssertionError(f"{page.name}: {link}; it has {sorted(anchors(there))}")


def test_every_page_is_in_the_contents() -> None:
    spec = importlib.util.spec_from_file_location("contents", ROOT / "docs" / "contents.py")
    assert spec is not None and spec.loader is not None
    contents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(contents)
    index = ROOT / "docs" / "index.md"
    listed = {index, ROOT / "README.md"}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if contents.MARK in text or page.relative_to(ROOT).with_suffix("") == Path(
            contents.DECISIONS
        ):
            listed |= {(page.parent / f"{one}.md").resolve() for one in contents.listed(text)}
    missing = [str(page.relative_to(ROOT)) for page in PAGES if page not in listed]
    assert missing == [], (
        "list it in an index.md: docs/guides, concepts, reference, internals or about"
    )


def test_there_are_links() -> None:
    assert sum(len(links(page)) for page in PAGES) > 300
    assert "values-that-do-not-fit" in anchors(ROOT / "docs" / "reference" / "types.md")
