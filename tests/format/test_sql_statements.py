"""Several statements in one text are taken apart where Spark would end them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.sql_tokens import statements


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select 1", [("select 1", 1)]),
        ("select 1;", [("select 1", 1)]),
        ("select 1;\nselect 2\n;\n", [("select 1", 1), ("select 2", 2)]),
        (";;select 1;; ;", [("select 1", 1)]),
        ("", []),
        ("-- nothing; at all\n/* ; */", []),
        ("-- first;\nselect 1; -- it's\nselect 2", [("select 1", 2), ("select 2", 3)]),
        ("select 'a;b', \"c;d\", `e;f` ; x", [("select 'a;b', \"c;d\", `e;f`", 1), ("x", 1)]),
        ("select 'it''s;', 'a\\';b'; x", [("select 'it''s;', 'a\\';b'", 1), ("x", 1)]),
        ("select r'\\'; select 2", [("select r'\\'", 1), ("select 2", 1)]),
        ("select /*+ hint; */ 1 /* a /* b; */ ; */; x", [("select /*+ hint; */ 1", 1), ("x", 1)]),
        ("select 'a\nb';\nx", [("select 'a\nb'", 1), ("x", 3)]),
        ("select t.2;x", [("select t.2", 1), ("x", 1)]),
    ],
)
def test_a_text_is_taken_apart(text: str, found: list[tuple[str, int]]) -> None:
    assert [(one.text, one.line) for one in statements(text)] == found


@given(st.text(alphabet="ab1;'\"`-/*\\\n r.", max_size=40))
def test_nothing_but_blanks_comments_and_semicolons_is_left_out(text: str) -> None:
    again = statements(";\n".join(one.text for one in statements(text)) + "\n;")
    assert [one.text for one in again] == [one.text for one in statements(text)]
    start = 0
    for one in statements(text):
        start = text.index(one.text, start) + len(one.text)
