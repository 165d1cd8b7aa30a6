"""A text is found however JSON spells it, and nothing else is."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.ops.erase import spelling
from singerlake.ops.erase.scan import matches

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=200)
@given(TEXTS, TEXTS, st.booleans(), st.integers(0, 3))
def test_any_spelling_at_any_depth(text: str, around: str, ascii_only: bool, depth: int) -> None:
    document = around + text + around
    for _ in range(depth):
        document = json.dumps({"a": document}, ensure_ascii=ascii_only)
    assert matches(document.encode(), spelling.pattern_of(text))


@settings(max_examples=200)
@given(TEXTS, st.text(st.characters(codec="ascii", exclude_characters="\\"), max_size=20))
def test_without_a_backslash_only_the_text_itself_is_found(text: str, other: str) -> None:
    forms = {unicodedata.normalize(form, text) for form in ("NFC", "NFD")} | {text}
    assert matches(other.encode(), spelling.pattern_of(text)) is any(one in other for one in forms)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Zoë", rb'"Zo\u00EB"'),
        ("Zoë", rb'"Zo\u00eb"'),
        ("Zoë", '"Zoe\u0308"'.encode()),
        ("a/b", rb'"a\/b"'),
        ("Ada", rb'"\u0041da"'),
        ("😀", rb'"\ud83d\ude00"'),
        ('say "x"', rb'"{\"a\": \"say \\\"x\\\"\"}"'),
        ("a\\b", rb'"a\\b"'),
        ("a.b", b"a.b"),
    ],
)
def test_what_people_and_taps_write(text: str, line: bytes) -> None:
    assert matches(line, spelling.pattern_of(text))


@pytest.mark.parametrize(("text", "line"), [("a.b", b"axb"), ("Ada", b"ada"), ("Zoë", b"Zoe")])
def test_what_is_another_text(text: str, line: bytes) -> None:
    assert not matches(line, spelling.pattern_of(text))


def test_documents_in_other_encodings() -> None:
    assert spelling.plain_bytes("Zoë") == [
        "Zoë".encode("utf-16-le"),
        "Zoë".encode("utf-16-be"),
        b"Zo\xeb",
        "Zoe\u0308".encode("utf-16-le"),
        "Zoe\u0308".encode("utf-16-be"),
    ]
    assert len(spelling.plain_bytes("Ada")) == 2  # Latin-1 spells it as UTF-8 does
