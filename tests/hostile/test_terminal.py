"""Names and values that would steer a terminal, or be taken for markup."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.ops import freeze as plans
from singerlake.safe_text import visible
from singerlake_cli import output, results
from singerlake_cli.main import cli
from tests.build import commit_rows

PROGRAM = Path(sys.executable).with_name("singerlake")
TITLE = "\x1b]0;owned\x07"
EVIL = f"{TITLE}\x1b[2J\x9b31m\u202e\x7f\r\nerror: all is lost"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e\\x7f\\r\\nerror: all is lost"
MARKUP = ["[/]", "[bold]x", "[link=http://example.org]x[/link]", "[red]"]
STREAM = "a\x1b[2J\u202eb"
STREAM_SHOWN = "a\\x1b[2J\\u202eb"
DANGER = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]"
    r"|\x1b(?!\[[0-9;]*m)"  # colours are our own
    r"|(?m:^error: all is lost)"
)


@pytest.fixture
def evil(lake: Lake) -> Lake:
    properties = {name: {"type": "string"} for name in ("id", EVIL, *MARKUP)}
    row = {"id": "1", EVIL: EVIL, "[/]": "[/]", "[red]": "[red]r[/red]"}
    for table in ("t.s", f"t.{STREAM}"):
        head = commit_rows(lake, table, properties, ["id"], [row])
        found, _ = lake.find(table)
        wanted = plans.plan(head, at=None, label=None, comment=f"[/] {EVIL}")
        plans.commit_version(found.store, head, wanted, rows=1, fingerprint="0" * 32)
    return lake


def on_a_terminal(lake: Lake, columns: int, *args: str) -> str:
    """What a command writes to a terminal, standard error included."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    command = [PROGRAM, "--lake", lake.store.uri, *args]
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 1 << 16):
            pieces.append(piece)
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert running.wait(timeout=60) in (0, 3, 5)
    return b"".join(pieces).decode("utf-8").replace("\r\n", "\n")


COMMANDS = [
    ["ls"],
    ["ls", "--sizes"],
    ["show", f"t.{STREAM}"],
    ["show", "t.s"],
    ["history", f"t.{STREAM}"],
    ["versions", f"t.{STREAM}"],
    ["locks"],
    ["metrics"],
    ["rebuild", "--all"],
    ["vacuum", "--all", "--dry-run"],
    ["vacuum", "--all", "--only", "delete"],
    ["ls", f"no{TITLE}"],
    ["show", f"t.no{TITLE}"],
    ["show", f"t.s.{TITLE}"],
    ["doctor"],
    ["--output", "json", "versions", "t.s"],
    ["--output", "json", "show", "t.s"],
    ["--output", "json", "ls"],
]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: visible(" ".join(args)))
def test_nothing_steers_a_terminal(evil: Lake, args: list[str]) -> None:
    columns = 60 + 20 * (COMMANDS.index(args) % 4)
    said = on_a_terminal(evil, columns, *args)
    assert said.strip()
    assert DANGER.search(said) is None
    if "json" not in args and any(STREAM in arg for arg in args):
        assert STREAM_SHOWN in said
    if args[:1] == ["--output"]:
        json.loads(said)


@pytest.mark.usefixtures("processes")
def test_a_pipe_gets_json_as_it_is(evil: Lake) -> None:
    command = [PROGRAM, "--lake", evil.store.uri, "--output", "json", "show", f"t.{STREAM}"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(done.stdout)["table"] == f"t.{STREAM}"
    assert "\u202e".encode() in done.stdout


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("columns", [40, 60, 120])
def test_no_name_and_no_number_is_cut_on_a_narrow_terminal(lake: Lake, columns: int) -> None:
    name = "a" * 30
    for _ in range(2):
        commit_rows(lake, f"tap-shop.{name}", {"id": {"type": "integer"}}, [], [{"id": 1}] * 1234)
    for args in (["ls"], ["history", f"tap-shop.{name}"]):
        said = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(lake, columns, *args))
        left_out = "".join(re.findall(r"not shown: ([^(]*)", said))
        assert "…" not in said
        assert ("1,234" in said or "2,468" in said) != ("records" in left_out)
        assert max(map(len, said.splitlines())) <= columns
        assert name in (said if columns > 40 else re.sub(r"\s", "", said))
        # Where even the columns that matter have no room, a row is a block of lines.
        assert ("── 1 of" in said) == (columns == 40 and args == ["ls"])
        assert bool(left_out) == (columns < 120 and "── 1 of" not in said)


def test_markup_is_text_in_headings_titles_cells_and_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_table("[/] [bold]t", [*MARKUP, "[/]>", "[/]~"], [MARKUP + ["[/]"] * 2], "[/] note")
    said = capsys.readouterr().out
    assert said.count("[/] ") + said.count("[/]\n") >= 5
    for name in MARKUP:
        assert said.count(name) >= 2, name


def test_columns_and_values_of_queries_rows_and_history(spark: SparkSession, evil: Lake) -> None:
    def run(*args: str) -> Result:
        result = CliRunner().invoke(cli, ["--lake", evil.store.uri, *args])
        assert result.exit_code == 0, result.output
        return result

    for args in (
        ["query", "select *, `[/]` as `[bold]` from t.s"],
        ["rows", "t.s", "--key", "1"],
        ["rows", "t.s", "--key", "1", "--history"],
    ):
        said = run(*args).output
        assert DANGER.search(said) is None
        assert "[/]" in said
        assert "\\x1b]0;owned\\x07" in said.replace("\n", "").replace(" ", "")
    text = run("query", "select * from t.s", "--format", "csv").stdout_bytes
    (names, row) = csv.reader(io.StringIO(text.decode(), newline=""))
    assert EVIL in names
    assert EVIL in row
    (line,) = run("query", "select * from t.s", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line)[EVIL] == EVIL


class Answer:
    """An answer that needs no Spark."""

    sources: tuple[()] = ()

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns, self._rows = columns, rows

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "json"])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_streamed_rows_on_a_terminal_and_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, form: str, stream: type[io.StringIO]
) -> None:
    out = stream()
    monkeypatch.setattr(sys, "stdout", out)
    answer: Any = Answer(["a", EVIL], [(EVIL, 1)])
    results.write(answer, form, None)
    said = out.getvalue()
    harmless = not re.search("[\x1b\x07\x7f-\x9f\u202e]", said)
    assert harmless == (stream is Terminal)
    if form == "jsonl":
        assert json.loads(said) == {"a": EVIL, EVIL: 1}
    elif form == "json":
        assert json.loads(said)["rows"] == [[EVIL, 1]]
    elif stream is io.StringIO:
        dialect = "excel-tab" if form == "tsv" else "excel"
        assert [*csv.reader(io.StringIO(said, newline=""), dialect)][1] == [EVIL, "1"]


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_safe_cells(tmp_path: Path, form: str) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "＝1", "a=1", "", " =1", "'=1"]
    answer: Any = Answer(["=cmd()", "n", "d"], [(text, -1, [-1]) for text in texts])
    for safe in (True, False):
        to = tmp_path / f"{safe}.{form}"
        results.write(answer, form, to, safe_cells=safe)
        with to.open(newline="") as file:
            found = [*csv.reader(file, "excel-tab" if form == "tsv" else "excel")]
        others = ("a=1", "", " =1")
        marked = [f"'{text}" if safe and text not in others else text for text in texts]
        assert found[0] == ["'=cmd()" if safe else "=cmd()", "n", "d"]
        assert found[1:] == [[text, "-1", "[-1]"] for text in marked]


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_safe_cells_leave_numbers_of_every_type(tmp_path: Path, form: str) -> None:
    row = (Decimal("-1.50"), Decimal("-1E+3"), -1, -0.5, b"\xf8", date(2026, 1, 2))
    answer: Any = Answer(["a", "b", "c", "d", "e", "f"], [row])
    results.write(answer, form, tmp_path / "rows", safe_cells=True)
    with (tmp_path / "rows").open(newline="") as file:
        (_, found) = csv.reader(file, "excel-tab" if form == "tsv" else "excel")
    assert found == ["-1.50", "-1000", "-1", "-0.5", "'+A==", "2026-01-02"]


@pytest.mark.parametrize("more", [[], ["--format", "jsonl"], ["--format", "parquet", "--out", "x"]])
def test_safe_cells_are_for_spreadsheets(evil: Lake, more: list[str]) -> None:
    args = ["--lake", evil.store.uri, "query", "select 1", "--safe-cells", *more]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "--format csv" in result.stderr


def test_all_that_is_printed_goes_through_one_door() -> None:
    folder = Path(output.__file__).parent
    # The demo, the shells' completion and our shell's prompt are nothing but their own words.
    own = {"output.py", "demo.py", "completion.py", "editing.py"}
    for path in folder.rglob("*.py"):
        text = path.read_text("utf-8")
        if path.name not in own:
            assert not re.search(r"click\.(s?echo|style)|\bprint\(|std(out|err)\.write", text) or (
                path.name in ("results.py", "working.py") and "print(" not in text
            ), path


def test_what_a_terminal_shows() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("a\tb\nc", spaces=True) == "a\tb\nc"
    assert visible("a\tb\nc", lines=True) == "a\\tb\nc"
    assert visible("Łódź 日本 é 👩‍👩‍👧 עברית") == "Łódź 日本 é 👩‍👩‍👧 עברית"
    assert visible("\udc80\u2028\U000e0041") == "\\udc80\\u2028\\ue0041"
