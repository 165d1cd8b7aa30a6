"""What is typed into the shell: entries of several lines, and the arguments they mean."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import UsageError
from singerlake_cli.main import COMMANDS
from singerlake_cli.shell.entries import ENDS, HELP, PROGRAM, SQL_BEGINS, Entries, exit_code


def read(text: str) -> list[tuple[int, list[str]]]:
    """Entries of a text: the line of each, and its arguments."""
    lines = iter(text.splitlines())
    entries = Entries(lambda _: next(lines, None))
    found = []
    while (entry := entries.next()) is not None:
        found.append((entry.line, entry.arguments()))
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ls --sizes", [(1, ["ls", "--sizes"])]),
        (
            "singerlake ls\n\n# a note: it's one\n  # another",
            [(1, ["ls"]), (2, []), (3, []), (4, [])],
        ),
        ("help freeze\nhelp", [(1, ["freeze", "--help"]), (2, ["--help"])]),
        ("show a#b", [(1, ["show", "a#b"])]),
        (
            'query "select 1\nfrom x" -f y\nls',
            [(1, ["query", "select 1\nfrom x", "-f", "y"]), (3, ["ls"])],
        ),
        ("freeze \\\n  a.b\nls", [(1, ["freeze", "a.b"]), (3, ["ls"])]),
        ("select 1;\nls", [(1, ["query", "select 1;"]), (2, ["ls"])]),
        (
            "SELECT ';'\n-- it's ;\n, 2 ;\nls",
            [(1, ["query", "SELECT ';'\n-- it's ;\n, 2 ;"]), (4, ["ls"])],
        ),
        (
            "with a as (select 1)\nfrom a\n\nls",
            [(1, ["query", "with a as (select 1)\nfrom a"]), (4, ["ls"])],
        ),
        ("(select 1)\nunion (select 2)", [(1, ["query", "(select 1)\nunion (select 2)"])]),
        ("\ufeffls", [(1, ["ls"])]),
        ("-- it's a note\n--\nls", [(1, []), (2, []), (3, ["ls"])]),
        ("/* it's\n\na note */\nls", [(1, []), (4, ["ls"])]),
        ("/* a */ -- b\nls", [(1, []), (2, ["ls"])]),
        ("/* a */ ls x", [(1, ["ls", "x"])]),
        ("/* a\n */ select 1\n;", [(1, ["query", "/* a\n */ select 1\n;"])]),
        ("--output json ls", [(1, ["--output", "json", "ls"])]),
        ("rows a.b --where 'id > 3 | x'", [(1, ["rows", "a.b", "--where", "id > 3 | x"])]),
        ("# ls > x", [(1, [])]),
        ("selection\nselect", [(1, ["selection"]), (2, ["query", "select"])]),
    ],
)
def test_lines_make_entries(text: str, found: list[tuple[int, list[str]]]) -> None:
    assert read(text) == found


def test_a_quote_that_is_never_closed_is_said() -> None:
    for text, words in (
        ("query 'select 1\nls", "a quote is never closed"),
        ("freeze \\", "the last line is incomplete:"),
        ("/* a\nls", "a comment is never closed"),
    ):
        with pytest.raises(UsageError, match=words):
            read(text)


def test_in_a_script_an_open_quote_ends_with_its_line() -> None:
    lines = iter(["freeze \\", "  'a.b", "ls", "select 'a", "b';", "ls"])
    entries = Entries(lambda _: next(lines, None), script=True)
    broken = entries.next()
    assert broken is not None
    assert broken.line == 1
    with pytest.raises(UsageError, match="a quote is never closed"):
        broken.arguments()
    rest = [entries.next() for _ in range(4)]
    assert [one and (one.line, one.arguments()) for one in rest] == [
        (3, ["ls"]),
        (4, ["query", "select 'a\nb';"]),
        (6, ["ls"]),
        None,
    ]


@pytest.mark.parametrize("text", ["locks > o.txt", "locks >o", "ls | cat", "ls 2>&1", "ls && ls"])
def test_what_only_other_shells_do_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it neither redirects nor pipes"):
        read(text)


@pytest.mark.parametrize(
    "words", [["exit", "x"], ["exit", "-1"], ["exit", "256"], ["exit", "1", "2"]]
)
def test_what_is_no_exit_code(words: list[str]) -> None:
    with pytest.raises(UsageError, match="exit takes one exit code"):
        exit_code(words)


def test_no_command_begins_as_sql_does() -> None:
    assert not {*SQL_BEGINS, *ENDS, HELP, PROGRAM} & set(COMMANDS)


@given(st.lists(st.text(alphabet="ab \n'\"\\#-;", max_size=8), min_size=1, max_size=4))
def test_a_command_that_a_shell_would_quote_means_the_same_here(words: list[str]) -> None:
    assert [found for _, found in read(f"ls {shlex.join(words)}")] == [["ls", *words]]
