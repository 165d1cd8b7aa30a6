"""`singerlake vacuum`: what is taken, refused, printed, and how it exits, also when killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from pyspark.sql import SparkSession

from singerlake.format import metadata
from singerlake.format.metadata import Lease
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.lease import leases
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import (
    PARTS,
    Vacuumed,
    VacuumOptions,
    VacuumPlan,
    plan_vacuum,
    vacuum_lock,
)
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from singerlake_cli import output, shared, vacuum_output
from singerlake_cli.commands import vacuum as command
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.faults.cases import in_a_fork
from tests.frozen import vacuum_here, vacuum_on_spark
from tests.ops.vacuum.plain_table import events, freeze, keys_at, state
from tests.ops.vacuum.test_combine import combine, contents

ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}
NAME = TableName("tap", "s")
NOW = ("--retain", "0", "--no-retention-guard")
NOTHING_KEPT = VacuumOptions(retain_seconds=0, guard=False)


def fill(lake: Lake, table: str = "tap.s") -> Table:
    for n in range(3):
        commit_rows(lake, table, ROW, ["id"], [{"id": 1, "n": n}, {"id": n, "n": n}])
    return lake.find(table)[0]


def only_deletion_left(lake: Lake, name: str = "tap.s") -> Table:
    """All that a vacuum would do needs no Spark."""
    table = fill(lake, name)
    combine(table, 1 << 20)
    return table


def present(table: Table) -> list[str]:
    head = table.snapshot()
    return sorted(
        json.dumps(row.record) for row in state(events(table, head), keys_at(head, head.number))
    )


def data_files(lake: Lake) -> set[str]:
    assert isinstance(lake.store, LocalStore)
    return {p.relative_to(lake.store.root).as_posix() for p in lake.store.root.rglob("*.gz")}


def named(table: Table) -> set[str]:
    return {table.name.data(block.file) for block in table.snapshot().blocks}


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(shared, "start_spark", refuse)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7d", 604_800),
        ("36h", 129_600),
        ("90min", 5400),
        ("90m", 5400),
        ("1.5h", 5400),
        ("2w", 1_209_600),
        ("45s", 45),
        (" 1 d ", 86_400),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert command.duration(text) == seconds


@pytest.mark.parametrize("text", ["7", "", "d", "-1d", "7 days", "1e3s", "7d7d", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="for example 7d, 36h or 90min"):
        command.duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("128MiB", 128 << 20), ("1GB", 10**9), ("4096", 4096), ("1.5 kib", 1536), ("2g", 2 * 10**9)],
)
def test_sizes(text: str, count: int) -> None:
    assert command.size(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1XB", "1 MiB B", "1e6"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match="use a number and a unit, for example 128MiB"):
        command.size(text)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("tap.s", "--retain", "23h"), "a retention of 23 h is rejected"),
        (("tap.s", "--retain", "0"), "--no-retention-guard"),
        (("tap.s", "--retain", "7"), "not a valid duration"),
        (("tap.s", "--target-file-bytes", "big"), "not a valid size"),
        (("tap.s", "--target-file-bytes", "0"), "cannot be negative"),
        ((), "name the tables to vacuum, or use --all"),
        (("tap.s", "--all"), "name the tables to vacuum, or use --all"),
        (("tap.s.1",), "a vacuum needs a whole table: name tap.s"),
        (("tap.s", "--expire-history", "--only", "delete"), "--only excludes --expire-history:"),
    ],
)
@pytest.mark.usefixtures("no_spark")
def test_what_is_refused_changes_nothing(lake: Lake, args: tuple[str, ...], words: str) -> None:
    freeze(fill(lake), 1)
    before = contents(lake)
    result = run(lake, "vacuum", *args)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert contents(lake) == before


@pytest.mark.usefixtures("processes")
@pytest.mark.usefixtures("no_spark")
def test_nothing_to_do_starts_no_jvm_and_loads_no_spark(lake: Lake) -> None:
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 1}])
    before = contents(lake)
    result = run(lake, "vacuum", "--all")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "tap.s: nothing to do",
        "1 table: 0 vacuumed, 1 with nothing to do; 0 files (0 B) deleted",
    ]
    (one, _) = run_json(lake, "vacuum", "tap.s")
    assert (one["table"], one["transaction"], one["files_deleted"]) == ("tap.s", 0, 0)
    assert contents(lake) == before
    code = (
        "import sys; from singerlake_cli.main import cli\n"
        f"cli(['--lake', {lake.store.uri!r}, 'vacuum', '--all'], standalone_mode=False)\n"
        "assert 'pyspark' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("no_spark")
def test_a_deletion_alone_needs_no_spark(lake: Lake) -> None:
    table = only_deletion_left(lake)
    rows = present(table)
    (one, staging) = run_json(lake, "vacuum", "tap.s", *NOW)
    assert (one["files_deleted"], one["transaction"]) == (3, 6)
    assert staging == {"staging": [], "kept": []}
    assert data_files(lake) == named(table)
    assert present(table) == rows


@pytest.mark.usefixtures("no_spark")
def test_the_dry_run_says_what_the_run_does_and_changes_nothing(lake: Lake) -> None:
    table = fill(lake)
    combine(table, 1 << 20)
    old = data_files(lake) - named(table)
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 8, "n": 1}])
    freeze(table, 2)
    before = contents(lake)
    (plan, _) = run_json(lake, "vacuum", "tap.s", *NOW, "--dry-run")
    text = run(lake, "vacuum", "tap.s", *NOW, "--dry-run", "--expire-history").output
    assert contents(lake) == before
    assert {item["key"] for item in plan["delete"]} == old
    assert plan["combine"][0]["files"] == 2
    assert "compact: 2 files into 1" in text
    assert "transaction 2 stays readable: version 1" in text
    for key in old:
        assert f"{key} (" in text
    (done, _) = run_json(lake, "vacuum", "tap.s", *NOW)
    (group,) = plan["combine"]
    assert (done["files_in"], done["bytes_copied"]) == (group["files"], group["bytes"])
    # And the files that it combined itself, for nothing is retained.
    assert done["files_deleted"] == len(old) + group["files"]
    assert data_files(lake) == named(table)
    (after, _) = run_json(lake, "vacuum", "tap.s", *NOW, "--dry-run")
    assert (after["combine"], after["delete"], after["drop_history"]) == ([], [], None)


@pytest.mark.usefixtures("no_spark")
def test_what_is_young_is_kept_and_told_of(lake: Lake) -> None:
    table = only_deletion_left(lake)
    before = contents(lake)
    (plan, _) = run_json(lake, "vacuum", "tap.s", "--dry-run")
    assert len(plan["kept"]) == 3
    assert all("within the retention" in item["reason"] for item in plan["kept"])
    with table.lease():
        (plan, _) = run_json(lake, "vacuum", "tap.s", "--dry-run")
        # A reader says what it began with, the manifest; by what it reads it finds out later.
        assert [one["transaction"] for one in plan["leases"]] == [table.checkpoint().number]
    result = run(lake, "vacuum", "tap.s")
    assert result.exit_code == 0
    assert "3 files" in result.output
    assert "left for a later run" in result.output
    assert contents(lake) == before


@pytest.mark.usefixtures("no_spark")
def test_all_goes_on_past_a_damaged_table_and_names_it(lake: Lake) -> None:
    commit_rows(lake, "tap.a", ROW, ["id"], [{"id": 1}])
    broken = lake.find("tap.a")[0].name
    lake.store.replace(broken.transaction(1), b"{", None)
    lake.store.delete(broken.manifest)
    table = only_deletion_left(lake)
    result = run(lake, "vacuum", "--all", *NOW)
    assert result.exit_code == 5, result.output
    assert "error: tap.a: " in result.output
    assert result.output.splitlines()[-1].endswith("deleted; 1 failed: tap.a")
    assert data_files(lake) - named(table) == {
        key for key in data_files(lake) if key.startswith("raw/tap/a/")
    }
    said = run_json_after(lake)
    assert [one["table"] for one in said if "table" in one] == ["tap.s"]


def summed_up(lake: Lake, *args: str, code: int = 5) -> tuple[str, dict[str, Any]]:
    """The last line of a vacuum's dry run, and what it tells scripts."""
    result = run(lake, "vacuum", *NOW, "--dry-run", *args)
    assert result.exit_code == code, result.output
    said = run_json(lake, "vacuum", *NOW, "--dry-run", *args, code=code)
    return result.stdout.splitlines()[-1], said[-1]["summary"]


@pytest.mark.usefixtures("no_spark")
def test_many_tables_are_summed_up_at_the_end(lake: Lake) -> None:
    table = only_deletion_left(lake)
    for name in ("tap.idle", "tap.broken", "other.t"):
        commit_rows(lake, name, ROW, ["id"], [{"id": 1}])
    broken = lake.find("tap.broken")[0].name
    lake.store.replace(broken.transaction(1), b"{", None)
    lake.store.delete(broken.manifest)
    root = Path(lake.store.uri)
    (root / "raw/tap/begun").mkdir()
    unneeded = [root / key for key in data_files(lake) if "tap/s/" in key]
    unneeded = [path for path in unneeded if path.name not in " ".join(named(table))]
    size = sum(path.stat().st_size for path in unneeded)
    counts = {"files_deleted": 3, "bytes_deleted": size, "bytes_written": 0}
    files = f"3 files ({output.size(size)})"
    line, summary = summed_up(lake, "--all")
    assert line == (
        f"4 tables: 1 to vacuum, 2 with nothing to do; {files} to delete; 1 failed: tap.broken"
    )
    assert summary == {
        "tables": 4,
        "dry_run": True,
        "vacuumed": 1,
        "nothing_to_do": 2,
        "failed": ["tap.broken"],
        **counts,
    }
    line, _ = summed_up(lake, "tap.idle", "other.t", code=0)
    assert line == "2 tables: 0 to vacuum, 2 with nothing to do; 0 files (0 B) to delete"
    result = run(lake, "vacuum", "tap", *NOW)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        5,
        f"3 tables: 1 vacuumed, 1 with nothing to do; {files} deleted; 1 failed: tap.broken",
    )
    assert not any(path.exists() for path in unneeded)
    assert "3 tables" not in run(lake, "vacuum", "tap.s", *NOW).stdout
    assert "summary" not in run_json(lake, "vacuum", "tap.s", *NOW)[-1]


@pytest.mark.usefixtures("no_spark")
def test_tables_of_a_tap_and_others_are_vacuumed_once(lake: Lake) -> None:
    for name in ("tap-shop.a", "tap-shop.b", "other.t"):
        commit_rows(lake, name, ROW, ["id"], [{"id": 1}])
    said = run_json(lake, "vacuum", "other.t", "tap_shop", "tap-shop.b")
    assert [one["table"] for one in said if "table" in one] == [
        "other.t",
        "tap-shop.b",
        "tap-shop.a",
    ]
    result = run(lake, "vacuum", "tap-shob")
    assert result.exit_code == 2 and "'tap-shob' is not a tap of the lake" in result.output


def test_what_was_written_is_set_off_against_what_was_freed() -> None:
    total = vacuum_output.Total(dry_run=False)
    total.add(Vacuumed(NAME, 3, files_deleted=2, bytes_deleted=5000, bytes_written=1000))
    assert total.as_text() == (
        "1 table: 1 vacuumed, 0 with nothing to do; "
        f"2 files ({output.size(5000)}) deleted, {output.size(4000)} freed"
    )
    total.add(Vacuumed(NAME, 3, bytes_written=6000))
    assert total.as_text().endswith(f"deleted, {output.size(2000)} more for now")
    total.add_items([Item("_staging/x", 1, "left")])
    assert (total.files_deleted, total.bytes_deleted, total.tables) == (3, 5001, 2)


def run_json_after(lake: Lake) -> Any:
    result = run(lake, "--output", "json", "vacuum", "--all", *NOW)
    assert result.exit_code == 5
    return json.loads(result.stdout)


@pytest.mark.usefixtures("no_spark")
def test_a_table_is_looked_at_once_unless_it_changes_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = only_deletion_left(lake)
    planned: list[int] = []

    def plan(store: Store, snapshot: TableState, options: VacuumOptions) -> VacuumPlan:
        planned.append(snapshot.number)
        return plan_vacuum(store, snapshot, options)

    monkeypatch.setattr(vacuum, "plan_vacuum", plan)
    stale = plan_vacuum(lake.store, table.snapshot(), NOTHING_KEPT)
    assert run(lake, "vacuum", "tap.s", *NOW).exit_code == 0
    assert planned == [stale.snapshot.number]
    assert data_files(lake) == named(table)
    # Another vacuum was faster: what the stale plan wanted to do is done.
    done = vacuum_here(table, NOTHING_KEPT, plan=stale)
    assert (done.transaction, done.files_deleted) == (0, 0)
    assert planned == [stale.snapshot.number, table.snapshot().number]


@pytest.mark.usefixtures("no_spark")
def test_two_at_once_the_second_exits_4_and_says_so(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_deletion_left(lake)
    options = VacuumOptions(stale_seconds=2)
    made = command.VacuumOptions
    monkeypatch.setattr(command, "VacuumOptions", lambda **kw: made(**kw, stale_seconds=2))
    before = data_files(lake)
    with vacuum_lock(lake.store, NAME, "first", options):
        result = run(lake, "vacuum", "tap.s", *NOW)
    assert result.exit_code == 4, result.output
    assert "another vacuum of tap.s is running: let it finish" in result.output
    assert data_files(lake) == before
    assert run(lake, "vacuum", "tap.s", *NOW).exit_code == 0


KILLED = """
import os, signal, sys, threading
from singerlake.storage.local.store import LocalStore
method, part, skip, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
work, mutex, left = getattr(LocalStore, method), threading.Lock(), [skip]
def patched(self, key, *args, **options):
    with mutex:
        strikes = part in key and left[0] == 0
        left[0] -= part in key
    if strikes and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    result = work(self, key, *args, **options)
    if strikes:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(LocalStore, method, patched)
from singerlake_cli.main import main
sys.argv = ["singerlake", *sys.argv[5:]]
main()
"""


def killed(lake: Lake, point: tuple[str, str, int, str], *args: str) -> None:
    """A vacuum of its own process, killed at an operation."""
    method, part, skip, when = point
    command_line = [sys.executable, "-c", KILLED, method, part, str(skip), when]
    command_line += ["--lake", lake.store.uri, "vacuum", "tap.s", *NOW, *args]
    done = subprocess.run(command_line, check=False, capture_output=True, timeout=240)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def killed_in_a_fork(lake: Lake, point: tuple[str, str, int, str], *args: str) -> None:
    """The same with this process's Spark, for a vacuum that needs it."""
    method, part, skip, when = point
    words = ["-c", method, part, str(skip), when]
    words += ["--lake", lake.store.uri, "vacuum", "tap.s", *NOW, *args]

    def work() -> None:
        sys.argv = words
        exec(KILLED, {})

    assert in_a_fork(work) == -signal.SIGKILL


def finish_by_next_run(lake: Lake, spark: SparkSession | None = None) -> None:
    """The next night: the dead one's lock is stale by then."""
    table = lake.table(NAME)

    options = VacuumOptions(
        retain_seconds=0, guard=False, parts=PARTS if spark else PARTS[2:], stale_seconds=0.5
    )
    done = vacuum_on_spark(spark, table, options) if spark else vacuum_here(table, options)
    assert plan_vacuum(lake.store, table.snapshot(), options).empty
    assert data_files(lake) == named(table)
    # Where nothing was left to do, nobody wanted the dead one's lock.
    assert not (done.transaction and lake.store.exists(NAME.vacuum_lock))
    assert [*lake.store.list(NAME.leases)] == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "point",
    [
        ("put_if_absent", "transactions/", 0, "before"),
        ("put_if_absent", "transactions/", 0, "after"),
        ("delete", ".singer.gz", 0, "before"),
        ("delete", ".singer.gz", 1, "after"),
        ("put_if_absent", "transactions/", 1, "before"),
        ("put_if_absent", "transactions/", 1, "after"),
    ],
    ids=lambda point: f"{point[3]} {point[0]} {point[1]} {point[2]}",
)
def test_killed_while_it_deletes(lake: Lake, point: tuple[str, str, int, str]) -> None:
    table = only_deletion_left(lake)
    rows, head = present(table), table.snapshot()
    killed(lake, point)
    assert present(table) == rows
    assert table.snapshot().blocks == head.blocks
    finish_by_next_run(lake)
    assert present(table) == rows


@pytest.mark.parametrize(
    ("part", "operations"),
    [("compact", {"combine"}), ("expire", {"drop-history"}), ("delete", set())],
)
def test_only_does_that_part_alone(lake: Lake, part: str, operations: set[str]) -> None:
    table = fill(lake)
    rows, files = present(table), data_files(lake)
    assert run(lake, "vacuum", "tap.s", *NOW, "--only", part).exit_code == 0
    made = {str(entry.operation) for entry in [*table.entries()][3:]}
    assert made - {"vacuum-start", "vacuum"} == operations
    assert present(table) == rows
    assert files <= data_files(lake), "all files are needed, or replaced and not deleted"


@pytest.mark.usefixtures("each_operation")
@pytest.mark.usefixtures("processes")
def test_killed_between_writing_and_the_commit(spark: SparkSession, lake: Lake) -> None:
    """What it wrote is nobody's; the next run does the work anew and leaves nothing."""
    table = fill(lake)
    rows, files = present(table), data_files(lake)
    killed_in_a_fork(lake, ("put_if_absent", "transactions/", 1, "before"), "--expire-history")
    assert present(table) == rows
    assert files < data_files(lake), "its own new file is there"
    assert named(table) == files
    finish_by_next_run(lake, spark)
    assert present(table) == rows
    assert [entry.operation for entry in table.entries()][3:] == [
        "vacuum-start",
        "vacuum-start",
        "drop-history",
        "vacuum",
    ]


@pytest.mark.usefixtures("many_cases")
def test_dead_readers_of_many_tables_are_waited_for_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [only_deletion_left(lake, f"tap.s{n}") for n in range(4)]
    for table in tables:
        name = table.name.lease(f"dead-{table.name.stream}")
        dead = Lease(reader_id="dead", transaction=1, acquired="", refreshed="")
        lake.store.put_if_absent(name, metadata.encode(dead))
    stale = 2.0
    real = VacuumOptions

    def impatient(**more: Any) -> VacuumOptions:
        return real(**more, stale_seconds=stale)

    monkeypatch.setattr(command, "VacuumOptions", impatient)
    began = time.monotonic()
    result = run(lake, "vacuum", "--all", *NOW)
    assert result.exit_code == 0, result.output
    assert stale <= time.monotonic() - began < 2 * stale + 1
    for table in tables:
        assert leases(lake.store, table.name) == []
        assert f"{table.name}: " in result.stdout
