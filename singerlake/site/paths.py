"""Paths of pages, the same in every build: addresses are given away."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from singerlake.format import names
from singerlake.format.names import TableName

HOME = "index"
STATE = "singerlake-site.json"
"""Says that a folder holds a site, and what each page was made of."""
ASSETS = "assets/"


def tap(name: str, page: int = 1) -> str:
    """A tap's page, without its suffix."""
    return f"taps/{names.encode(name)}/{'index' if page == 1 else f'page-{page}'}"


def home(page: int = 1) -> str:
    """The home page, or one more of taps."""
    return HOME if page == 1 else f"taps-{page}"


@lru_cache(maxsize=256)
def _folder(table: TableName) -> str:
    return f"taps/{names.encode(table.tap)}/tables/{names.encode(table.stream)}"


def table(name: TableName) -> str:
    """A table's page."""
    return f"{_folder(name)}/index"


def columns(name: TableName, page: int) -> str:
    """More of a table's columns."""
    return f"{_folder(name)}/columns-{page}"


def versions(name: TableName, page: int) -> str:
    """More of a table's versions."""
    return f"{_folder(name)}/versions-{page}"


def version(name: TableName, number: int) -> str:
    """A version's page: its address is for ever."""
    return f"{_folder(name)}/versions/{number}"


def link(path: str, here: str, suffix: str) -> str:
    """Return how one page names another: relative, so that a site can lie anywhere, and encoded."""
    return root(here) + quote(path + suffix)


def root(here: str) -> str:
    """The way from a page to the site's root."""
    return "../" * here.count("/")
