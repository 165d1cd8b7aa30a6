"""Old addresses of pages and headings lead to pages and headings that exist."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from tests.pages.steps import ROOT
from tests.test_docs_links import anchors

DOCS = ROOT / "docs"


def _extension() -> ModuleType:
    spec = importlib.util.spec_from_file_location("redirects", DOCS / "redirects.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


redirects = _extension()
MOVED = redirects.read(redirects.TABLE.read_text(encoding="utf-8"))
TARGETS = sorted({new for moved in MOVED.values() for new in moved.values()})


@pytest.mark.parametrize("new", TARGETS)
def test_redirect_target_exists(new: str) -> None:
    path, _, anchor = new.partition("#")
    page = (DOCS / path).resolve()
    assert page.is_file()
    assert not anchor or anchor in anchors(page), sorted(anchors(page))


@pytest.mark.parametrize("old", MOVED)
def test_redirected_page_was_deleted_and_has_a_default_target(old: str) -> None:
    assert not (DOCS / old).exists(), "the redirect would replace the page"
    assert "" in MOVED[old], "add a line for the page without an anchor"


def test_redirect_page_names_the_target_of_page_and_anchor() -> None:
    moved = redirects.read("# a comment\n\nold/a.md new/b.md\nold/a.md#x c.md#y\nd.md e.md\n")
    assert moved == {"old/a.md": {"": "new/b.md", "x": "c.md#y"}, "d.md": {"": "e.md"}}
    page = redirects.page("old/a.md", moved["old/a.md"])
    assert 'moved = {"#x": "../c.html#y"};' in page
    assert 'moved[location.hash] || "../new/b.html" + location.hash' in page
    assert re.findall(r'href="(.*?)"', page) == ["../new/b.html"] * 2
    assert 'content="0; url=../new/b.html"' in page
    assert 'href="e.html"' in redirects.page("d.md", moved["d.md"])
