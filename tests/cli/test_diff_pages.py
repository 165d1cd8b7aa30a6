"""``singerlake diff --format html`` and ``markdown``: pages for people."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run

TABLE = "tap-shop.orders"
MEAN = "<script>hurt()</script>|`*_[x](javascript:x)\n# \u202e'\"&"
OLD: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
NEW: dict[str, Any] = {**OLD, MEAN: {"type": ["null", "string"]}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, TABLE, OLD, ["id"], [{"id": n, "name": f"n{n}"} for n in range(1, 10)])
    later: list[Any] = [
        {"id": 2, "name": MEAN, MEAN: MEAN},
        {"id": 3, "_sdc_deleted_at": "2026-03-01T01:20:00Z"},
        {"id": 4, "name": None},
        {"id": 11},
    ]
    commit_rows(lake, TABLE, NEW, ["id"], later)
    return lake


class Page(HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page(shop: Lake, *args: str) -> str:
    done = run(shop, "diff", TABLE, "@1", "--engine", "local", *args)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_page_shows_counts_schema_and_cells(shop: Lake, tmp_path: Path) -> None:
    assert page(shop, "--out", str(tmp_path / "d.html")) == ""
    text = (tmp_path / "d.html").read_text("utf-8")
    assert text == page(shop, "--format", "html")
    found = Page(text)
    words = " ".join(found.text.split())
    assert "From transaction 1 to the head (transaction 2)" in words
    for name, rows in (("added", 1), ("changed", 2), ("removed", 1), ("unchanged", 6)):
        assert f"Rows {name} {rows}" in " ".join(re.sub("<[^>]*>", " ", text).split())
    classes = [attributes.get("class") for tag, attributes in found.tags if tag == "tbody"]
    assert classes[2:] == ["changed", "removed", "changed", "added"]


def test_page_asks_for_nothing_and_runs_nothing(shop: Lake) -> None:
    """Whatever names and values say."""
    found = Page(page(shop, "--format", "html"))
    tags = {tag for tag, _ in found.tags}
    assert not tags & {"script", "img", "link", "iframe", "a", "form", "object", "base"}
    attributes = {name for _, some in found.tags for name in some}
    assert not {name for name in attributes if name.startswith("on")}
    assert not attributes & {"src", "href", "style"}
    policy = next(some["content"] for tag, some in found.tags if "http-equiv" in some)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "<script>hurt()</script>" in found.text
    assert "\u202e" not in found.text


def test_markdown_is_one_table_whatever_values_hold(shop: Lake, tmp_path: Path) -> None:
    assert page(shop, "--out", str(tmp_path / "d.md")) == ""
    text = (tmp_path / "d.md").read_text("utf-8")
    assert text == page(shop, "--format", "markdown")
    assert "1 added, 2 changed, 1 removed, 6 unchanged." in text
    assert "<script>" not in text
    rows = text[text.index("| change | id |") :].strip().splitlines()
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert [row.split("|")[1:3] for row in rows[2:]] == [
        [" changed ", " 2 "], [" changed ", " 2 "], [" removed ", " 3 "], [" changed ", " 4 "],
        [" added ", " 11 "],
    ]  # fmt: skip


def test_page_shows_so_many_rows_and_says_how_many_more(shop: Lake) -> None:
    assert "3 more rows differ." in page(shop, "--format", "markdown", "--limit", "1")
    found = Page(page(shop, "--format", "html", "--limit", "1"))
    assert "3 more rows differ." in " ".join(found.text.split())


def test_page_of_equal_states(shop: Lake) -> None:
    done = run(shop, "diff", TABLE, "@1", "@1", "--engine", "local", "--format", "markdown")
    assert "0 added, 0 changed, 0 removed, 9 unchanged." in done.stdout
    assert "No row differs." in done.stdout


def test_query_gives_no_pages(shop: Lake) -> None:
    done = run(shop, "query", "select 1", "--format", "html")
    assert (done.exit_code, "is not one of 'table', 'csv'" in done.stderr) == (2, True)
