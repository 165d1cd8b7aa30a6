"""The commands that read metadata only: what they print, and what they do not import."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from singerlake.errors import DamagedError, StoreError
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.names import TableName
from singerlake.format.types import RULES
from singerlake.lake import Lake, Table
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.storage.local.store import LocalStore
from singerlake_cli.commands.show import columns
from singerlake_cli.main import COMMANDS, cli
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.target import harness

PROPERTIES = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": n} for n in range(5)], 2)
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 9}])
    commit_rows(lake, "tap-shop.public.items", PROPERTIES, [], [{"id": 1}])

    def draft(snapshot: TableState) -> Entry:
        version = FrozenVersion(
            number=1,
            transaction=1,
            schema_hash=snapshot.schema_hash,
            rows=5,
            fingerprint="0" * 32,
            label="first",
            by="ada",
        )
        return draft_entry(
            snapshot.table, Operation.FREEZE, version=version, metadata={"why": "test"}
        )

    name = TableName("tap-shop", "orders")
    commit(lake.store, lake.table(name).snapshot(), draft)
    return lake


def test_ls(filled: Lake) -> None:
    tables = run_json(filled, "ls")
    assert [(t["table"], t["records"], t["transactions"], t["versions"]) for t in tables] == [
        ("tap-shop.orders", 6, 3, 1),
        ("tap-shop.public.items", 1, 1, 0),
    ]
    text = run(filled, "ls").stdout
    assert "tap-shop.orders" in text
    assert "tap-shop.public.items" in text
    assert run(filled, "ls", "tap-none").exit_code == 3


def test_ls_says_when_the_newest_version_was_frozen(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = filled.table(TableName("tap-shop", "orders")).snapshot().frozen
    assert [t["last_freeze"] for t in run_json(filled, "ls")] == [versions[0].time, None]
    listed = run(filled, "ls").stdout.splitlines()
    assert re.search(r"last sync +last freeze +recent$", listed[0])
    assert re.search(r" (\d+ s ago) +\d+ s ago +\S+$", listed[2])
    assert re.search(r" (\d+ s ago) +– +\S+$", listed[3])

    whole = Table.snapshot

    def snapshot(table: Table, **more: Any) -> TableState:
        seen = whole(table, **more)
        times = ["2020-02-02T00:00:00Z", "2020-03-03T00:00:00Z"]
        frozen = [structs.replace(versions[0], number=n, time=t) for n, t in enumerate(times, 1)]
        return replace(seen, frozen=frozen if seen.frozen else [])

    monkeypatch.setattr(Table, "snapshot", snapshot)
    assert run_json(filled, "ls")[0]["last_freeze"] == "2020-03-03T00:00:00Z"
    assert "  2020-03-03 00:00:00  " in run(filled, "ls").stdout


def test_ls_has_no_column_of_freezes_where_nothing_is_frozen(lake: Lake) -> None:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1}])
    assert "last freeze" not in run(lake, "ls").stdout
    assert run_json(lake, "ls")[0]["last_freeze"] is None


def test_ls_and_show_call_records_the_same_in_json_as_in_text(filled: Lake) -> None:
    for args in (["ls"], ["ls", "--sizes"], ["show", "tap-shop.orders"]):
        found = run_json(filled, *args)
        table = found if isinstance(found, dict) else found[0]
        assert (table["records"], "rows" in table) == (6, False)
        assert "record" in run(filled, *args).stdout
    assert run(filled, "drop", "tap-shop.orders", "--with-versions", "--yes").exit_code == 0
    (gone,) = run_json(filled, "ls", "--dropped")
    assert (gone["records"], "rows" in gone) == (6, False)


@pytest.mark.parametrize(
    "args",
    [
        ["ls"],
        ["ls", "--sizes"],
        ["versions", "tap-shop.orders"],
        ["history", "tap-shop.orders"],
        ["show", "tap-shop.orders"],
        ["locks"],
        ["doctor"],
    ],
)
def test_output_in_a_pipe_does_not_begin_with_a_blank_line(filled: Lake, args: list[str]) -> None:
    for result in (run(filled, *args), run(filled, *args)):
        assert result.stdout.splitlines()[0].strip()
    assert "\n\n" in run(filled, "show", "tap-shop.orders").stdout, "between its parts it stays"


def test_versions_of_a_table_without_any_prints_one_line(filled: Lake) -> None:
    assert run(filled, "versions", "tap-shop.public.items").stdout == (
        "tap-shop.public.items has no versions; to freeze one: singerlake freeze "
        "tap-shop.public.items\n"
    )
    assert run_json(filled, "versions", "tap-shop.public.items") == []


def test_show_extracted_spans_all_blocks_in_whatever_order_they_came(lake: Lake) -> None:
    newest, oldest = "2026-05-01T00:00:00Z", "2026-01-01T02:00:00+03:00"
    for time in ("2026-03-01T00:00:00Z", oldest, newest, "2026-04-01T00:00:00Z"):
        line = harness.record("a", {"id": 1}, time_extracted=time)
        harness.run(lake.store.uri, [harness.schema("a", keys=["id"]), line])
    shown = run_json(lake, "show", f"{harness.TAP}.a")
    assert shown["first"] == "2025-12-31T23:00:00.000000Z"
    assert shown["last"] == "2026-05-01T00:00:00.000000Z"
    text = run(lake, "show", f"{harness.TAP}.a").stdout
    assert "2025-12-31 23:00:00 to 2026-05-01 00:00:00 UTC" in text


def test_table_whose_name_has_a_backtick_is_found_by_its_quoted_name(lake: Lake) -> None:
    for stream in ("x`", "x`.1", "`x`"):
        commit_rows(lake, f"t.{stream}", PROPERTIES, ["id"], [{"id": 1}])
    for given in ("t.x`", "t.`x```", "t.`x``.1`", "t.```x```"):
        result = run(lake, "show", given)
        assert result.exit_code == 0, result.stderr
    assert run_json(lake, "show", "t.`x``.1`")["table"] == "t.x`.1"
    assert "t.`x``.1`" in run(lake, "ls").stdout


def test_ls_goes_on_past_a_damaged_table(filled: Lake) -> None:
    Path(filled.store.uri, "raw/tap-shop/orders/manifest.json").unlink()
    Path(filled.store.uri, "raw/tap-shop/orders/transactions/000000000001.json").write_text("{")
    result = run(filled, "ls")
    assert result.exit_code == 5
    assert "tap-shop.public.items" in result.stdout
    assert "000000000001.json cannot be read" in result.stderr


def test_ls_passes_over_a_first_sync_that_is_not_committed(filled: Lake) -> None:
    folder = Path(filled.store.uri, "raw/tap-shop/coming/NFSHXeX")
    folder.mkdir(parents=True)
    (folder / "singerlake.lock").write_text("{}")
    (folder / "coming-1-2.singer.gz").write_bytes(b"half")
    result = run(filled, "ls")
    assert result.exit_code == 0
    assert "coming" not in result.stdout


def test_show(filled: Lake) -> None:
    shown = run_json(filled, "show", "tap-shop.orders")
    assert (shown["records"], shown["blocks"], shown["files"]) == (6, 4, 2)
    assert run_json(filled, "show", "tap-shop.orders.1")["records"] == 5
    text = run(filled, "show", "tap-shop.orders").stdout
    assert "string (date-time)" in text
    assert run_json(filled, "show", "tap-shop.public.items")["records"] == 1


def test_show_names_the_columns_that_a_reader_has(lake: Lake) -> None:
    properties = {
        "id": {"type": "integer"},
        "more": {"allOf": [{"properties": {"a": {"type": "string"}}}]},
        "free": {},
    }
    head = commit_rows(lake, "t.s", properties, ["id"], [{"id": 1}])
    schema = {
        "$defs": {"n": {"type": "object", "properties": {"who": {"type": "string"}}}},
        "allOf": [
            {"properties": properties},
            {"$ref": "#/$defs/n"},
            {
                "properties": {
                    "at": {"$ref": "#/$defs/n"},
                    "on": {"type": "array", "items": {"type": "integer"}},
                }
            },
        ],
    }
    entry = structs.replace(head.schema, schema=schema)
    read: Any = SimpleNamespace(schema=entry, rules=RULES)
    found = {name: (kind, key) for name, kind, key in columns(read)}
    assert found == {
        "id": ("integer", True),
        "more": ("object", False),
        "free": ("text", False),
        "who": ("string", False),
        "at": ("object", False),
        "on": ("array", False),
    }
    assert [kind for _, kind, _ in columns(head)] == ["integer", "object", "any"]


def test_ls_looks_names_up_in_one_set(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def seen(name: TableName, known: set[TableName]) -> str:
        asked.append(known)
        return str(name)

    monkeypatch.setattr("singerlake_cli.commands.ls.written", seen)
    run(filled, "ls")
    assert len(asked) == 2
    assert asked[0] is asked[1]


LIES = ("one\nerror: all is lost", "error: two\nerror: three")


def test_a_message_of_several_lines_has_no_line_of_a_names(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SeveralLinesError(DamagedError):
        lines = ("these are gone:", f"  {LIES[0]}", f"  {LIES[1]}")

    def failing(*_: object, **__: object) -> None:
        raise SeveralLinesError("\n".join(SeveralLinesError.lines))

    said = ["these are gone:", *("  " + lie.replace("\n", "\\n") for lie in LIES)]
    monkeypatch.setattr(Table, "snapshot", failing)
    result = CliRunner().invoke(cli, ["--lake", filled.store.uri, "show", "tap-shop.orders"])
    assert result.exit_code == 5
    assert result.stderr.splitlines() == [f"error: {said[0]}", *said[1:]]
    result = CliRunner().invoke(cli, ["--lake", filled.store.uri, "ls"])
    assert result.stderr.splitlines() == [f"error: {said[0]}", *said[1:]] * 2


def test_what_a_new_table_read_is_a_line_of_its_own(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.ops.create.create import Created
    from singerlake.sql.tables import Source

    source = Source(TableName("t", LIES[0]), None, 3)
    made = Created(TableName("t", LIES[1]), 1, 2, 1, "lt1:0123456789", "LbGaR4O", [], [source])
    module = "singerlake_cli.commands.create_table"
    monkeypatch.setattr(f"{module}.create", lambda *_, **__: made)
    lines = run(filled, "create-table", "t.x", "--from-query", "select 1").stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["t.error:", "read"]
    assert lines[1].endswith("at transaction 3")


def test_notes_have_no_line_of_a_names(lake: Lake) -> None:
    for _ in range(2):
        commit_rows(lake, f"t.{LIES[0]}", PROPERTIES, [], [{"id": 1}])
    said = run(lake, "ls").stdout
    assert "no key: 2 rows" in said
    assert not any(line.startswith("error:") for line in said.splitlines())


def test_what_people_change_makes_no_table_fresh(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Table.snapshot
    times = {"sync": "2020-01-01T00:00:00Z", "change": "2020-02-02T00:00:00Z"}
    log = ["sync", "change", "change"]

    def snapshot(table: Table, **more: Any) -> TableState:
        seen = whole(table, **more)
        past = [
            structs.replace(one, operation=did, time=times[did], rows=1)
            for one, did in zip(seen.transactions, log, strict=False)
        ]
        return replace(seen, transactions=past)

    monkeypatch.setattr(Table, "snapshot", snapshot)
    for expected in (times["sync"], times["change"]):
        assert run_json(filled, "ls")[0]["last_sync"] == expected
        assert run_json(filled, "show", "tap-shop.orders")["last_sync"] == expected
        measured = run(filled, "metrics").stdout
        stamp = datetime.fromisoformat(expected.replace("Z", "+00:00")).timestamp()
        name = "singerlake_table_last_sync_timestamp_seconds"
        assert f'{name}{{tap="tap-shop",stream="orders"}} {stamp:.0f}' in measured
        site = tmp_path / expected[:10]
        run(filled, "docs", "--format", "markdown", "--out", str(site))
        page = (site / "taps/tap-shop/tables/orders/index.md").read_text()
        assert f"last sync {expected[:10]}" in page
        log[0] = "change"  # one that no sync ever brought anything to


def test_history(filled: Lake) -> None:
    entries = run_json(filled, "history", "tap-shop.orders")
    assert [(e["number"], e["operation"], e["rows"]) for e in entries] == [
        (3, "freeze", 0),
        (2, "sync", 1),
        (1, "sync", 5),
    ]
    assert entries[0]["metadata"] == {"why": "test"}
    assert len(run_json(filled, "history", "tap-shop.orders", "--limit", "1")) == 1
    text = run(filled, "history", "tap-shop.orders", "--limit", "2").stdout
    assert "1 older" in text


def test_history_without_the_log_comes_from_the_manifest(filled: Lake) -> None:
    Path(filled.store.uri, "raw/tap-shop/orders/transactions/000000000001.json").unlink()
    assert [e["number"] for e in run_json(filled, "history", "tap-shop.orders")] == [3, 2, 1]


def test_history_says_what_can_still_be_read(filled: Lake) -> None:
    assert all(e["readable"] for e in run_json(filled, "history", "tap-shop.orders"))
    table = filled.table(TableName("tap-shop", "orders"))
    Path(filled.store.uri, table.name.data(table.snapshot().blocks[-1].file)).unlink()
    readable = [e["readable"] for e in run_json(filled, "history", "tap-shop.orders")]
    assert readable == [False, False, True]
    assert "from transaction 2 on" in run(filled, "history", "tap-shop.orders").stdout


def test_versions(filled: Lake) -> None:
    (version,) = run_json(filled, "versions", "tap-shop.orders")
    assert (version["number"], version["label"], version["transaction"]) == (1, "first", 1)
    listed = run(filled, "versions", "tap-shop.orders").stdout
    assert "first" in listed
    assert "00000000 " in listed
    assert "without lt1: against accident only" in listed
    assert "singerlake freeze" in run(filled, "versions", "tap-shop.public.items").stdout


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["show", "orders"], 2, "tap.stream"),
        (["show", "tap-shop.nothing"], 3, "it has tap-shop.orders"),
        (["show", "tap-shop.ordres"], 3, "did you mean tap-shop.orders?"),
        (["show", "tap_shop.ordres"], 3, "did you mean tap-shop.orders?"),
        (["show", "tap-shop.orders.frist"], 3, "did you mean tap-shop.orders?"),
        (["freeze", "tap-shop.orders", "--label", "first"], 2, "version 1 of tap-shop.orders has"),
        (["revert", "tap-shop.orders", "--to", "frist"], 3, "did you mean 1 (first)?"),
        (["alter", "tap-shop.orders", "retype", "idd", "text"], 3, "did you mean id?"),
        (["revert", "tap-shop.orders", "--to-time", "yesterday"], 2, "is not a time"),
        (["histroy"], 2, "No such command 'histroy'. Did you mean history?"),
        (["show", "tap-shop.orders.7"], 3, "it has 1 (first)"),
        (["freeze", "tap-shop.orders", "--transaction", "99"], 3, "its last is 3"),
        (["rebuild"], 2, "--all"),
        (["nonsense"], 2, "No such command"),
        (["nope"], 2, "No such command 'nope'. See singerlake --help."),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    filled: Lake, args: list[str], code: int, says: str
) -> None:
    result = run(filled, *args)
    assert result.exit_code == code
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_no_lake(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["--lake", str(tmp_path / "none"), "ls"])
    assert result.exit_code == 3
    assert "SINGERLAKE_LAKE" in result.stderr
    assert not (tmp_path / "none").exists()


def test_a_damaged_lake_file_stops_nobody_and_is_made_anew(filled: Lake) -> None:
    path = Path(filled.store.uri, "raw/singerlake.json")
    path.write_text("{cut")
    assert [t["table"] for t in run_json(filled, "ls")] == [
        "tap-shop.orders",
        "tap-shop.public.items",
    ]
    run_json(filled, "rebuild", "--all")
    assert "tap-shop" in json.loads(path.read_text())["taps"]
    path.write_text('{"format": 99, "taps": {}}')
    result = run(filled, "ls")
    assert result.exit_code == 5
    assert "upgrade" in result.stderr


def test_rebuild_all(filled: Lake) -> None:
    Path(filled.store.uri, "raw/tap-shop/orders/manifest.json").unlink()
    done = run_json(filled, "rebuild", "--all")
    assert [d["table"] for d in done] == ["tap-shop.orders", "tap-shop.public.items"]
    assert Path(filled.store.uri, "raw/tap-shop/orders/manifest.json").exists()


def test_all_passes_over_what_never_was_a_table(filled: Lake) -> None:
    """As a first sync leaves it that was killed before its commit."""
    assert isinstance(filled.store, LocalStore)
    (filled.store.root / "raw/tap-shop/begun").mkdir()
    lock = filled.store.root / "raw/tap-shop/locked/abcdefg/singerlake.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("{}")
    for args in (("rebuild", "--all"), ("vacuum", "--all", "--only", "delete")):
        result = run(filled, *args)
        assert result.exit_code == 0, result.output
        assert "begun" not in result.output
    assert run(filled, "vacuum", "tap-shop.begun").exit_code == 3


def test_rebuild_all_goes_on_past_a_table_with_a_hole(filled: Lake) -> None:
    assert isinstance(filled.store, LocalStore)
    root = filled.store.root / "raw/tap-shop"
    (root / "orders/manifest.json").unlink()
    (root / "orders/transactions/000000000002.json").unlink()
    (root / "public.items/manifest.json").unlink()
    result = run(filled, "rebuild", "--all")
    assert result.exit_code == 5
    assert "error: tap-shop.orders: the log" in result.output
    assert "tap-shop.public.items: 1 transaction; 0 log entries" in result.output
    assert (root / "public.items/manifest.json").exists()


def test_rebuild_says_that_versions_are_lost(filled: Lake) -> None:
    assert isinstance(filled.store, LocalStore)
    root = filled.store.root / "raw/tap-shop/orders"
    (root / "manifest.json").unlink()
    shutil.rmtree(root / "transactions")
    result = run(filled, "rebuild", "tap-shop.orders")
    assert "4 blocks adopted from files" in result.output
    assert "with them its history and all frozen versions" in result.output


def test_a_tap_that_is_not_there(filled: Lake) -> None:
    result = run(filled, "ls", "tap-shpo")
    assert result.exit_code == 3
    assert "has no tap 'tap-shpo': did you mean tap-shop?" in result.output
    assert run(filled, "ls", "tap_shop").stdout == run(filled, "ls", "tap-shop").stdout


def test_show_counts_schemas_in_order_of_appearance(filled: Lake) -> None:
    first = filled.find("tap-shop.orders")[0].snapshot().schema_hash
    commit_rows(filled, "tap-shop.orders", {"id": {"type": "string"}}, ["id"], [{"id": "x"}])
    commit_rows(filled, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 10}])
    result = run(filled, "show", "tap-shop.orders")
    assert f"{first}, number 1 of the 2 that this table has had" in result.output


def test_help_names_every_command_and_exit_code() -> None:
    text = CliRunner().invoke(cli, ["--help"]).stdout
    for name in COMMANDS:
        assert f"\n  {name} " in text
    assert "Exit codes" in text
    commands = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert "..." not in commands, "a command's first line is cut at 80 columns"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["ls"],
        ["versions", "tap-shop.orders"],
        ["vacuum", "tap-shop.orders", "--only", "delete"],  # which finds nothing to do
    ],
)
def test_metadata_commands_import_nothing_heavy(filled: Lake, args: list[str]) -> None:
    """The promise is 0.3 s; what would break it is an import, and that can be tested."""
    code = (
        "import sys\n"
        "from singerlake_cli.main import cli\n"
        f"cli.main(args={['--lake', filled.store.uri, *args]!r}, standalone_mode=False)\n"
        "heavy = {'pyspark', 'pyarrow', 'boto3', 'singer_sdk', 'pandas', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


UNNEEDED = (
    "singerlake.annotations.changes",
    "singerlake.ops.change",
    "singerlake.format.column_list",
    "singerlake.format.sql_tokens",
    "singerlake.overlay.alter",
    "singerlake.ops.change.plan",
    "singerlake.ops.drop",
    "singerlake.ops.freeze",
    "singerlake.ops.vacuum.garbage",
    "singerlake.ops.rows_back.revert_plan",
    "singerlake.log.scan",
    "singerlake.ops.vacuum.plan",
    "singerlake.publish.destinations",
    "singerlake.snapshot",
    "singerlake.rows",
    "singerlake.ops.rows_back",
    "singerlake.site",
    "singerlake.spark",
    "singerlake.storage.s3",
    "singerlake.log.commit",
    "singerlake.log.lease",
    "singerlake.log.locks",
    "singerlake.log.staging",
    "singerlake.log.writer",
)
"""What plans, writes or locks: a command that only shows what the log says starts without it."""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("command", ["ls", "show", "versions", "history"])
def test_what_only_shows_the_log_imports_neither_plans_nor_writers(
    filled: Lake, command: str
) -> None:
    args = ["--lake", filled.store.uri, command, *(["tap-shop.orders"] * (command != "ls"))]
    code = (
        "import sys\n"
        "from singerlake_cli.main import cli\n"
        f"cli.main(args={args!r}, standalone_mode=False)\n"
        f"unneeded = [m for m in {UNNEEDED!r} if m in sys.modules]\n"
        "print(unneeded, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_what_no_metadata_command_needs_is_there_by_these_names() -> None:
    for module in UNNEEDED:
        assert importlib.util.find_spec(module) is not None, f"{module} was renamed: rename it here"


@pytest.mark.usefixtures("processes")
def test_output_into_a_closed_pipe_is_quiet(filled: Lake) -> None:
    command = f"{sys.executable} -m singerlake_cli.main --lake {filled.store.uri} ls | true"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


@pytest.mark.usefixtures("processes")
def test_without_standard_output_nothing_is_begun(filled: Lake) -> None:
    command = f"{sys.executable} -m singerlake_cli.main --lake {filled.store.uri} ls >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output is closed")
    assert "unexpected" not in done.stderr


def test_a_stream_that_has_the_name_of_a_version(lake: Lake) -> None:
    for table in ("w.orders", "w.orders.2", "w.lone.3"):
        commit_rows(lake, table, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    for args in (["ls"], ["ls", "--sizes"]):
        said = run(lake, *args).stdout
        assert "w.`orders.2`" in said
        assert "w.lone.3 " in said
    assert {one["table"] for one in run_json(lake, "ls")} == {"w.orders", "w.orders.2", "w.lone.3"}
    assert run_json(lake, "show", "w.`orders.2`")["table"] == "w.orders.2"
    result = run(lake, "show", "w.orders.2")
    assert result.exit_code == 3
    assert "w.orders has no version '2'" in result.stderr
    assert "; the stream of that name is written w.`orders.2`" in result.stderr
    assert "is written" not in run(lake, "show", "w.orders.5").stderr


def test_a_dash_may_be_an_underscore_wherever_a_table_is_named(filled: Lake) -> None:
    for args in (["versions"], ["history"], ["vacuum", "--dry-run"]):
        whole, other = (
            # A vacuum tells the second that it keeps everything since.
            re.sub(r":\d\d:\d\dZ", "", run(filled, *args, table).stdout)
            for table in ("tap-shop.orders", "tap_shop.orders")
        )
        assert whole
        assert other == whole
    assert run_json(filled, "show", "TAP_SHOP.Public.Items")["table"] == "tap-shop.public.items"
    first = run(filled, "versions", "tap-shop.orders.1")
    assert run(filled, "versions", "tap_shop.orders.1").stdout == first.stdout
    commit_rows(filled, "tap_shop.orders", PROPERTIES, ["id"], [{"id": 1}])
    assert run_json(filled, "show", "tap_shop.orders")["table"] == "tap_shop.orders"
    unclear = run(filled, "show", "tap.shop.orders")
    assert unclear.exit_code == 3
    either = run(filled, "show", "TAP-SHOP.orders")
    assert either.exit_code == 2
    assert "could mean tap-shop.orders or tap_shop.orders" in either.stderr


def test_a_table_that_the_catalogue_lists_and_that_is_gone(filled: Lake) -> None:
    assert isinstance(filled.store, LocalStore)
    root = filled.store.root / "raw/tap-shop"
    shutil.rmtree(root / "orders")
    said = "tap-shop.orders is missing: raw/tap-shop/catalogue.json lists it"
    for args in (
        ["ls"],
        ["ls", "tap-shop"],
        ["show", "tap_shop.orders"],
        ["verify", "tap-shop.orders"],
    ):
        result = run(filled, *args)
        assert (result.exit_code, said in result.stderr) == (5, True), args
    assert "public.items" in run(filled, "ls").stdout
    (root / "orders").mkdir()  # an empty folder holds no table either
    assert said in run(filled, "ls").stderr
    (root / "catalogue.json").unlink()
    assert run(filled, "rebuild", "--all").exit_code == 0
    assert run(filled, "ls").exit_code == 0


def test_a_tap_that_the_lake_lists_and_that_is_gone(filled: Lake) -> None:
    assert isinstance(filled.store, LocalStore)
    shutil.rmtree(filled.store.root / "raw/tap-shop")
    said = "the tap tap-shop is missing: raw/singerlake.json lists it"
    for args in (["ls"], ["ls", "tap-shop"], ["show", "tap-shop.orders"]):
        result = run(filled, *args)
        assert (result.exit_code, said in result.stderr) == (5, True), args
    (lost,) = Lake(filled.store).inventory([]).lost
    assert lost.hint.endswith('take "tap-shop" out of "taps" in raw/singerlake.json')


def test_a_store_that_refuses_a_catalogue_hides_no_lost_table(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(key: str) -> None:
        raise StoreError(f"{key}: access denied")

    monkeypatch.setattr(filled.store, "get", refused)
    with pytest.raises(StoreError, match="catalogue"):
        filled.inventory(filled.tables(), "tap-shop")
