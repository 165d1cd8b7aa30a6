"""How a table finds its layout: what is wrapped, what is left out, and when rows are blocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from singerlake_cli import output, tables
from singerlake_cli.tables import Column, Layout, lay_out

ROWS = [
    ("tap.orders", "1,234", "to be looked at again by somebody in the morning", None, "x" * 12),
    ("tap.items", "7", "fine", None, "y"),
]
HEADINGS = ("table", "rows>", "comment~", "label", "proof")


def laid_out(room: int | None, drop: Sequence[str] = ("proof", "label")) -> Layout:
    columns = [
        Column.of(heading, [row[number] for row in ROWS]) for number, heading in enumerate(HEADINGS)
    ]
    return lay_out(columns, room, drop)


def headings(layout: Layout) -> list[str]:
    return [column.heading for column in layout.columns]


def test_with_room_nothing_is_wrapped() -> None:
    for room in (None, 300):
        layout = laid_out(room)
        assert layout.widths == [10, 5, 48, 5, 12]
        assert not layout.left_out


def test_texts_are_wrapped_before_a_column_goes() -> None:
    layout = laid_out(70)
    assert not layout.left_out
    assert layout.widths is not None
    assert sum(layout.widths) + 2 * 5 + 1 == 70
    assert [layout.widths[n] for n in (0, 1, 3, 4)] == [10, 5, 5, 12]


def test_what_says_nothing_goes_first_then_what_matters_least() -> None:
    assert laid_out(56).left_out == ["label"]
    assert laid_out(45).left_out == ["label", "proof"]
    assert headings(laid_out(45)) == ["table", "rows", "comment"]


def test_what_is_not_there_to_be_left_out_is_not_named() -> None:
    assert laid_out(45, ("none", "proof", "label")).left_out == ["label", "proof"]


def test_rows_are_blocks_where_the_rest_has_no_room_and_leave_nothing_out() -> None:
    layout = laid_out(36)
    assert layout.widths is None
    assert not layout.left_out
    assert headings(layout) == ["table", "rows", "comment", "label", "proof"]


def test_a_text_is_never_narrower_than_its_longest_word() -> None:
    column = Column.of("c~", ["a reconciliation-of-accounts b"])
    assert column.least == len("reconciliation-of-accounts")
    assert Column.of("c~", ["https://example.org/" + "x" * 100]).least == 40
    assert Column.of("c~", ["a b"]).least == 3
    assert Column.of("c", ["a reconciliation-of-accounts b"]).least == 30


def test_room_is_shared_so_that_short_texts_keep_theirs() -> None:
    columns = [Column.of("a~", ["word " * 20]), Column.of("b~", ["four words are here"])]
    layout = lay_out(columns, 60, ())
    assert layout.widths is not None
    assert layout.widths[1] == 19
    assert sum(layout.widths) + 5 == 60


def test_wide_letters_take_two_columns() -> None:
    assert Column.of("名", ["日本語"]).widest == 6


@pytest.mark.parametrize("room", [20, 40, 60])
def test_lines_are_wrapped_at_words_and_hang(room: int) -> None:
    text = "from transaction 7 on, snapshots cannot be read: files are missing; singerlake verify x"
    lines = output.wrapped(text, room, 2).splitlines()
    assert max(map(len, lines)) <= room
    assert " ".join(line.strip() for line in lines) == text
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_word_longer_than_a_line_is_left_whole() -> None:
    path = "/a/very/long/folder/that/somebody/copies"
    assert output.wrapped(f"cannot write {path}: full", 20, 2) == f"cannot write\n  {path}:\n  full"
    assert output.wrapped("", 20, 2) == ""
    assert output.wrapped("  indented text", 80, 4) == "  indented text"


def test_no_name_begins_a_line() -> None:
    lines = output.wrapped("the table is named error: all is lost", 18, 2).splitlines()
    assert not any(line.startswith("error:") for line in lines)


@pytest.mark.parametrize("title", [None, "a title"])
def test_plain_lines_are_those_of_a_terminal_with_room(title: str | None) -> None:
    rows = [*ROWS, ("表", "12", "ä\n", None, " z ")]
    columns = [
        Column.of(heading, [row[number] for row in rows]) for number, heading in enumerate(HEADINGS)
    ]
    layout = lay_out(columns, None, ())
    console = tables.console(1 + sum(column.widest + 2 for column in columns))
    with console.capture() as printed:
        for part in tables.rendered(title, layout, console.width):
            console.print(part)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    assert tables.plain(title, layout).split("\n") == [*lines, ""]


@pytest.mark.parametrize("columns", ["20", "80", "300"])
@pytest.mark.parametrize("title", ["a_long_tap.table_with_a_name_of_many_letters", "ひ" * 60, "t"])
def test_title_is_one_line_where_no_terminal_is(
    title: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    output.print_table(f"{title}, a new table", ["id"], [[1]])
    assert f"{title}, a new table" in capsys.readouterr().out.splitlines()
