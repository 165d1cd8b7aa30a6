"""Sphinx's table of contents from lists of links, which can be read without Sphinx, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = "<!-- toctree -->"
DECISIONS = "docs/decisions/README"
_LISTED = re.compile(r"^(?:- |\| \d+ \| )\[[^\]]+\]\(([^)#:]+)\.md\)", re.M)


def listed(text: str) -> list[str]:
    """The pages that the items of lists begin with, and the rows of the list of decisions."""
    return _LISTED.findall(text)


def _add(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001  # Sphinx's signature
    if MARK in source[0] or page == DECISIONS:
        tree = "\n".join(listed(source[0]))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx to look at each page as it is read."""
    app.connect("source-read", _add)
    return {"parallel_read_safe": True}
