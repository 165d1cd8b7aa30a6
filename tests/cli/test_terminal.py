"""Every command on a terminal of 60, 80 and 120 columns, and in a pipe.

Commands that read metadata run as they are. Those that start a Spark job render results that are
ready made: what is tested is what they print.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops import freeze as freezing
from singerlake.ops.freeze import Frozen
from singerlake.ops.vacuum.plan import Vacuumed
from singerlake.ops.verify.problems import Problem, Report
from singerlake_cli.main import COMMANDS, cli
from tests.build import commit_rows
from tests.cli.call import run
from tests.cli.terminal import COLUMNS, on_a_terminal
from tests.ops.vacuum.test_combine import combine

TABLE = "tap-shop.orders"
FILE = "<a file of rows>"
PROJECTIONS = "<a file of projections>"
NAME = TableName("tap-shop", "orders")
OTHER = "tap-warehouse.order_items_by_day"
RUN = "scheduled__2026-11-20T03:00:00"
LABEL = "2026-q3-as-reported"
COMMENT = "what the board was shown in October, before the refunds of September were booked"
HASH = "lt1:" + "0123456789abcdef" * 4
PROPERTIES = {
    "id": {"type": "integer", "description": "The number on the invoice"},
    "customer_email": {"type": "string"},
    "status": {
        "type": "string",
        "description": "What became of the order: open, paid, shipped, returned, or lost",
    },
    "total": {"type": "number"},
}


SHOPS: list[Lake] = []
"""The lake of :func:`shop`, for results that are made of it."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two tables: one with a version, a run's id and dropped files; and a lock."""
    lake = Lake.open(str(tmp_path_factory.mktemp("shop") / "lake"), create=True)
    for n in range(3):
        rows: list[Any] = [{"id": i, "status": "open", "total": 1.5} for i in range(500 * n + 1)]
        commit_rows(lake, TABLE, PROPERTIES, ["id"], rows, metadata={"run_id": RUN})
        commit_rows(lake, OTHER, {"id": {"type": "integer"}}, ["id"], [{"id": n}])
    table, _ = lake.find(TABLE)
    head = table.snapshot()
    wanted = freezing.plan(head, at=None, label=LABEL, comment=COMMENT)
    freezing.commit_version(table.store, head, wanted, rows=1001, fingerprint=HASH)
    combine(table, 1 << 20)
    lock = {"writer-id": "loader-7.example.org", "acquired": "2026-01-01T00:00:00Z"}
    lock["refreshed"] = "2026-01-01T00:00:09.000000Z"
    lake.store.put_if_absent(NAME.table_lock, json.dumps(lock).encode())
    SHOPS.append(lake)
    return lake


def version(number: int, operation: str, transaction: int) -> Any:
    from singerlake.ops.rows import RowVersion

    values: dict[str, Any] = {
        "id": 17,
        "customer_email": "somebody.with.a.long.name@example.org",
        "status": "returned, and then sent once more to another address in the same town",
        "created_at": datetime(2026, 3, 1, 1, 20, tzinfo=timezone.utc),
        "total": Decimal("1234.50"),
    }
    return RowVersion(number, transaction, "2026-03-01T01:20:00.123456Z", operation, values)


def ready_made(columns: list[str], rows: list[tuple[Any, ...]]) -> Any:
    """A query's result whose rows are there already."""
    from singerlake.sql.result import QueryResult
    from singerlake.sql.tables import Source

    class Ready(QueryResult):
        @property
        def columns(self) -> list[str]:
            return columns

        def glimpse(self, count: int) -> list[tuple[Any, ...]]:
            return rows[:count]

        def rows(self) -> Any:
            return iter(rows)

    nothing: Any = None
    return Ready(nothing, [Source(NAME, 1, 3, {"total": 2})])


ROW = version(1, "insert", 1).values


def problems() -> Report:
    found = Report(NAME, transactions=7, blocks=1, files=1, versions=1)
    key = "raw/tap-shop/orders/abcdefg/orders-20260301T012000Z.singer.gz"
    hint = "bring the file back from a backup, or revert to the last version that verifies"
    found.add([Problem("block", key, "checksum 0a1b2c3d", "checksum 4e5f6071", hint)])
    found.notes.append("two data files are named by no log entry; a vacuum deletes them in time")
    return found


@dataclass
class Case:
    """A command, and what must be seen of it whatever the width.

    Attributes:
        args: Of the command line.
        whole: What stands there, with no word of it cut or broken.
        result: What the job returns, for a command that starts one.
        job: Where the job is found.
    """

    args: list[str]
    whole: list[str] = field(default_factory=list)
    result: Callable[[], Any] | None = None
    job: str = ""


CASES = {
    "ls": Case(["ls"], [TABLE, OTHER, "1,503", "records", "size", "last sync"]),
    "ls --sizes": Case(["ls", "--sizes"], [TABLE, OTHER, "total", "free now", "free later"]),
    "ls --dropped": Case(["ls", "--dropped"], ["there are no dropped tables"]),
    "drop": Case(["drop", TABLE, "--with-versions", "--dry-run"], [TABLE, "1,503 records"]),
    "undrop": Case(["undrop", TABLE], ["is not dropped"]),
    "show": Case(["show", TABLE], [*PROPERTIES, "integer", "key", LABEL, "1,503 records"]),
    "history": Case(["history", TABLE], ["no.", "sync", "freeze", "combine", "refunds"]),
    "history --operation": Case(["history", TABLE, "--operation", "vacuum"], ["no transaction"]),
    "versions": Case(["versions", TABLE], ["version", LABEL, "of", "refunds"]),
    "point": Case(["point", TABLE, "current", "1"], ["points to version 1"]),
    "rejected": Case(["rejected"], ["no records are rejected"]),
    "sign": Case(
        ["sign", f"{TABLE}.1"], ["version 1 is not signed; sign it with: singerlake sign"]
    ),
    "bookmark": Case(["bookmark", "ls"], ["the lake keeps no bookmarks"]),
    "cite": Case(["cite", f"{TABLE}.1"], ["Fingerprint"]),
    "locks": Case(["locks"], [TABLE, "table", "loader-7.example.org"]),
    "unlock": Case(["unlock", OTHER, "--yes"], ["there is no lock on"]),
    "projections": Case(
        ["projections", "--projections", PROJECTIONS],
        ["orders_by_day", "projection", "state", "published", "singerlake publish --all"],
    ),
    "projections --graph": Case(
        ["projections", "--projections", PROJECTIONS, "--graph"],
        [TABLE, "orders_by_day", "staging.orders", "(parquet)"],
    ),
    "alter": Case(["alter", TABLE, "retype", "status", "text", "--dry-run"], [TABLE]),
    "rebuild": Case(["rebuild", "--all"], [TABLE, OTHER, "3 transactions"]),
    "doctor": Case(["doctor"], ["Python", "conditional writes", "hard links"]),
    "vacuum --dry-run": Case(["vacuum", "--all", "--dry-run"], [TABLE, "within the"]),
    "vacuum": Case(
        ["vacuum", "--all"],
        [f"{TABLE}:", "expired 1 old row version", "compacted 1,234 files into 1"],
        lambda: Vacuumed(NAME, 9, 1234, 1, 5_000_000, 1, 300, 1, 40_000, 9, []),
        "singerlake.ops.vacuum.vacuum.vacuum",
    ),
    "freeze": Case(
        ["freeze", TABLE, "--label", "x"],
        ["1 row,", "lt1:01234567"],
        lambda: Frozen(
            FrozenVersion(
                number=2,
                transaction=4,
                schema_hash="abcdefg",
                rows=1,
                fingerprint=HASH,
                label=LABEL,
            ),
            new=True,
        ),
        "singerlake.ops.freeze.freeze",
    ),
    "query": Case(
        ["query", "select 1"],
        [*ROW, "somebody.with.a.long.name@example.org", "2026-03-01T01:20:00Z", "1234.50"],
        lambda: ready_made(list(ROW), [tuple(ROW.values())] * 3),
        "singerlake.sql.answers.answer",
    ),
    "rows": Case(
        ["rows", TABLE, "--key", "17"],
        [*ROW, "2026-03-01 01:20:00", "insert", "2026-03-01T01:20:00Z", RUN],
        lambda: [version(1, "insert", 1)],
        "singerlake.ops.rows.row_history",
    ),
    "rows --history": Case(
        ["rows", TABLE, "--key", "17", "--history"],
        [*ROW, "2026-03-01 01:20:00", "insert", "update", "delete", "1234.50", RUN],
        lambda: [version(1, "insert", 1), version(2, "update", 2), version(9, "delete", 3)],
        "singerlake.ops.rows.row_history",
    ),
    "diff": Case(
        ["diff", TABLE, "@1"],
        [*ROW, "changed", "added", "somebody.with.a.long.name@example.org", "1 row added"],
        lambda: differing(),
        "singerlake.ops.diff.table.diff",
    ),
    "diff --stat": Case(
        ["diff", TABLE, "@1", "--stat"],
        ["1 row added, 1 changed, 0 removed, 1,234 unchanged", "customer_email", "cells changed"],
        lambda: differing(),
        "singerlake.ops.diff.table.diff",
    ),
    "create-table": Case(
        ["create-table", "views.totals", "--from-query", "select 1"],
        ["views.totals", "1 row,", f"read {TABLE}.1"],
        lambda: created(),
        "singerlake_cli.commands.create_table.create",
    ),
    "revert": Case(
        ["revert", TABLE, "--to-transaction", "1"],
        ["1 row put back"],
        lambda: reverted(),
        "singerlake.ops.revert.revert",
    ),
    "undo": Case(
        ["undo", TABLE, "1", "--on-conflict", "keep"],
        [
            "as transaction 8",
            "1 row put back, 2 deleted",
            "1,234 rows changed later",
            "id 17",
        ],
        lambda: undone(),
        "singerlake.ops.undo.undo",
    ),
    "upload": Case(
        ["upload", TABLE, FILE],
        [f"{TABLE}, transaction 9:", "1,234 updated", "frozen as version 2", "1 row,"],
        lambda: uploaded(),
        "singerlake.ops.upload.upload.upload",
    ),
    "update": Case(
        ["update", TABLE, "--set", "a = 1"],
        [f"{TABLE}, transaction 9:", "1,234 updated", "frozen as version 2", "1 row,"],
        lambda: changed(),
        "singerlake.ops.update.change",
    ),
    "delete --dry-run": Case(
        ["delete", TABLE, "--where", "id = 17", "--dry-run"],
        [f"{TABLE} ", "(dry run): 0 rows", "1 not found"],
        lambda: changed(dry=True),
        "singerlake.ops.change.selected_rows.change_selected",
    ),
    "erase": Case(
        ["erase", "--search", TABLE, "--key", "17"],
        ["key 1", "data of the table", "found in"],
    ),
    "verify": Case(
        ["verify", TABLE],
        [f"{TABLE}:", "1 block", "1 problem", "note:"],
        problems,
        "singerlake.ops.verify.verify._here",
    ),
}
FAILS = {"unlock", "undrop", "erase"}
NOT_HERE = {
    "completion": "prints a script for a shell",
    "demo": "prints what other commands do",
    "docs": "writes a site, and says one line about it",
    "files": "its list is a table of names as that of ls; the rest prints bytes or one line",
    "data-files": "prints paths or SQL for other programs, which nothing may break",
    "metrics": "prints text for Prometheus, which nothing may break",
    "shell": "prints what other commands do",
    "publish": "prints a line or two for each projection",
    "unpublish": "prints one line",
    "copy": "prints one line",
    "annotate": "prints the document that was asked for, or one line",
}


def created() -> Any:
    from singerlake.ops.create.create import Created

    sources = ready_made([], []).sources
    return Created(TableName("views", "totals"), 1, 1, 1, HASH, "abcdefg", [], sources)


def differing() -> Any:
    """What differs, where every column of a row does, and another row is new."""
    from singerlake.log.schema_difference import plan
    from singerlake.ops.diff.diff import Counts, LocalDiff

    class Ready(LocalDiff):
        def __init__(self) -> None:
            head = SHOPS[0].find(TABLE)[0].snapshot()
            self.compared, self.misfits = plan(head, "@1"), {}

        def keep(self) -> None: ...

        def close(self) -> None: ...

        def counts(self) -> Counts:
            return Counts(1, 1, 0, 1234, 3, {"customer_email": 1, "status": 1})

        def flat_rows(self, most: int | None = None) -> Any:
            names = [name for name in ROW if name != "id"]
            pairs = [f"{side}.{name}" for name in names for side in ("before", "after")]
            changed = [cell for name in names for cell in (None, ROW[name])]
            rows = [("changed", 17, names, *changed), ("added", 18, None, *changed)]
            return ready_made(["change", "key.id", "changed", *pairs], rows)

    return Ready()


def changed(*, dry: bool = False) -> Any:
    from singerlake.ops.change.job import Changed

    frozen = FrozenVersion(
        number=2, transaction=9, schema_hash="abcdefg", rows=1, fingerprint=HASH, label=LABEL
    )
    if dry:
        return Changed(None, absent=1)
    return Changed(9, 0, 1234, 2, 3, 1, whole=True, version=frozen)


def with_file(args: list[str], folder: Path) -> list[str]:
    """The words of a command, its files made."""
    (folder / "orders.csv").write_text("id\n17\n")
    (folder / "projections.yml").write_text(
        f"version: 1\nprojections:\n- {{name: orders, from: {TABLE}, stage: staging.orders}}\n"
        "- {name: orders_by_day, from: staging.orders, to: published/orders_by_day}\n"
    )
    files = {FILE: "orders.csv", PROJECTIONS: "projections.yml"}
    return [str(folder / files[word]) if word in files else word for word in args]


def uploaded() -> Any:
    from singerlake.ops.change.plan import Mode
    from singerlake.ops.upload.upload import Uploaded

    return Uploaded(NAME, Mode.UPSERT, None, changed())


def reverted() -> Any:
    from singerlake.ops.rows_back.revert import Reverted

    return Reverted(3, 8, 1, 2, 1_000_000, "abcdefg", whole=True)


def undone() -> Any:
    from singerlake.ops.undo import Conflict, Undone

    return Undone([1], 8, 1, 2, 1234, [Conflict("17", 3, deleted=False)], "abcdefg")


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    # A module that is first imported while names of others are replaced keeps the replacements.
    importlib.import_module("singerlake.ops.freeze_lake")
    for name in COMMANDS.values():
        importlib.import_module(f"singerlake_cli.commands.{name}")
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", lambda *_: None)
    monkeypatch.setattr("singerlake_cli.shared.start_spark", lambda *_: None)
    for name in COMMANDS.values():
        for attribute, value in (
            ("begin_spark", lambda *_: None),
            ("start_spark", lambda *_: None),
            # A bar is drawn, and taken away again: a test of its own has it.
            ("working", lambda *_: contextlib.nullcontext()),
        ):
            module = f"singerlake_cli.commands.{name}"
            monkeypatch.setattr(f"{module}.{attribute}", value, raising=False)


def test_every_command_is_tried() -> None:
    tried = {name.partition(" ")[0] for name in CASES}
    assert set(COMMANDS) - tried <= NOT_HERE.keys()
    assert tried <= set(COMMANDS)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", CASES)
def test_a_command_fits_the_terminal(
    shop: Lake, name: str, columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = CASES[name]
    args = with_file(case.args, tmp_path)
    if case.result is not None:
        result = case.result()
        monkeypatch.setattr(case.job, lambda *_, **__: result)

    def show() -> None:
        cli.main(args=["--lake", shop.store.uri, *args], standalone_mode=False)

    shown = on_a_terminal(columns, show)
    lines = shown.splitlines()
    assert lines
    for line in lines:
        # A word that is longer than a line is left whole, for it may be copied.
        assert len(line.rstrip()) <= columns or len(line.split()) == 1, line
    assert "…" not in shown
    words = " ".join(shown.split())
    for text in case.whole:
        assert text in words, (text, shown)


@pytest.mark.parametrize("name", [name for name in CASES if name.partition(" ")[0] not in FAILS])
def test_a_pipe_gets_every_column_and_a_line_a_row(
    shop: Lake, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = CASES[name]
    if case.result is not None:
        result = case.result()
        monkeypatch.setattr(case.job, lambda *_, **__: result)
    text = run(shop, *with_file(case.args, tmp_path)).stdout
    assert "not shown:" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    for word in case.whole:
        assert word in text, word


def test_what_was_left_out_is_named_and_a_wider_terminal_has_it(shop: Lake) -> None:
    def show() -> None:
        cli.main(args=["--lake", shop.store.uri, "history", TABLE], standalone_mode=False)

    narrow, wide = on_a_terminal(60, show), on_a_terminal(160, show)
    (note,) = re.findall(r"not shown: (.*?) \(", " ".join(narrow.split()))
    headings = wide.splitlines()[2].split()
    for left_out in note.split(", "):
        assert left_out in headings
    assert "not shown:" not in wide
    assert RUN in wide


def test_ls_gives_up_its_chart_before_the_time_of_the_last_freeze(shop: Lake) -> None:
    def show() -> None:
        cli.main(args=["--lake", shop.store.uri, "ls"], standalone_mode=False)

    for columns, left_out in ((120, None), (94, "recent"), (80, "recent, last freeze")):
        shown = " ".join(on_a_terminal(columns, show).split())
        note = re.search(r"not shown: (.*?) \(", shown)
        assert (note and note[1]) == left_out


def test_rows_of_a_narrow_terminal_are_blocks_that_leave_nothing_out(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["rows --history"]
    assert case.result is not None
    result = case.result()
    monkeypatch.setattr(case.job, lambda *_, **__: result)

    def show() -> None:
        cli.main(args=["--lake", shop.store.uri, *case.args], standalone_mode=False)

    shown = on_a_terminal(80, show)
    assert "── 1 of 3 ─" in shown
    assert shown.count("customer_email") == 3
    assert "not shown:" not in shown
    words = ROW["status"].split()
    assert all(f" {word} " in " ".join(shown.split()) + " " for word in words)


@pytest.mark.parametrize("columns", COLUMNS)
def test_errors_wrap_at_words(shop: Lake, columns: int) -> None:
    def show() -> None:
        args = ["--lake", "there-is-none", "ls"]
        cli.main(args=args, standalone_mode=False)

    shown = on_a_terminal(columns, show)
    lines = shown.splitlines()
    assert lines[0].startswith("error: there is no lake at")  # where it lies may be too long
    assert all(line.startswith("  ") for line in lines[1:])
    assert "SINGERLAKE_LAKE" in shown
    assert max(len(line) for line in lines) <= max(columns, len(str(Path.cwd())) + 30)
