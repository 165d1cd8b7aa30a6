"""Troubleshooting goes by messages that the code still has."""

from __future__ import annotations

import re

import pytest

from tests.pages.messages import texts
from tests.pages.steps import ROOT

PAGE = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"\*\*`([^`]+)`\*\*", PAGE)
ANYTHING = "line …: …"
"""Not one message, but how many begin."""


@pytest.fixture(scope="module")
def known() -> list[str]:
    """The code's texts, with … for each value that is put in."""
    return [re.sub(r"\{\w+(?:!r)?\}|%[sdg]", "…", text) for text in texts()]


def fits(quoted: str, text: str) -> bool:
    """Whether a text has the parts of a quoted message, one behind the other."""
    parts = [part.strip() for part in quoted.split("…") if part.strip(" …:.,;()")]
    return re.search(".*".join(map(re.escape, parts)), text, re.S) is not None


@pytest.mark.parametrize("quoted", [one for one in QUOTED if one != ANYTHING])
def test_a_message_is_in_the_code(quoted: str, known: list[str]) -> None:
    assert any(fits(quoted, text) for text in known), quoted


def test_a_message_that_is_nowhere_is_found_out(known: list[str]) -> None:
    assert len(QUOTED) > 15
    assert not any(fits("the lake … is a pond: fill it", text) for text in known)
