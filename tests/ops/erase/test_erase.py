"""Erasing rows: a row is nowhere, all else is as it was, and every state proves it.

On Spark: tests/ops/erase/test_erase_on_spark.py.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import singerlake
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, DamagedError, UsageError
from singerlake.format.log import Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.blocked import key_of
from singerlake.ops.change.plan import Mode
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase import table as job
from singerlake.ops.erase.lines import ErasedLines, pack
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.proof import ErasureProof
from singerlake.ops.erase.sweep import Swept
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.suppression import are_blocked
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions, plan_vacuum
from singerlake.ops.vacuum.vacuum import vacuum
from singerlake.ops.verify.verify import verify
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.overlay.overlay_changes import with_name
from singerlake.rows.blocks.positions import code
from singerlake.snapshot import index
from singerlake.sql.queries.query import query
from tests.build import commit_rows
from tests.cli import call
from tests.erasing import WHY, erase
from tests.frozen import HERE, index_here
from tests.histories import here
from tests.ops.change.row_sets import change, row_set
from tests.ops.erase import planted
from tests.ops.vacuum.plain_table import DELETED, events, states
from tests.tap.run import run as run_tap

NAME = TableName("tap", "t")
KEY = planted.KEY
HER = {"id": int(KEY), "name": planted.TEXT}


def commit(lake: Lake, *rows: Any, keys: list[str] | None = None, **more: Any) -> None:
    properties = planted.PROPERTIES
    commit_rows(lake, str(NAME), properties, ["id"] if keys is None else keys, [*rows], **more)


@pytest.fixture
def engine() -> EngineChoice:
    return HERE


@pytest.fixture
def table(lake: Lake) -> Table:
    """Five transactions, three versions of which the second is deleted; of her all but the first.

    1: Ada, Bob · 2: Zoë · 3: Zoë anew, and another · 4: Zoë deleted · 5: Zoë once more.
    """
    commit(lake, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    commit(lake, HER, {"id": 3, "name": "Cy"})
    commit(lake, 7, ({**HER, "name": f"{planted.TEXT} II"}, 7), ({"id": 1, "name": "Ada"}, 7))
    commit(lake, {**HER, DELETED: "2026-01-01T00:00:00Z"})
    commit(lake, HER, {"id": 5, "name": "Di"}, block_rows=1)
    table = lake.table(NAME)
    for at in (1, 2, 3, 5):
        here.freeze(table, at=at)
    delete_version(table.store, table.snapshot(), "3", "wrong")
    return table


def check_nowhere(lake: Lake) -> None:
    document = call.run_json(lake, "erase", "--search", str(NAME), "--key", KEY)
    assert document["found"] == document["not_read"] == []
    document = call.run_json(lake, "erase", "--search", "--text", planted.TEXT)
    assert document["found"] == document["not_read"] == []


def less_her(some: dict[int, list[Any]]) -> dict[int, list[Any]]:
    return {n: [row for row in rows if row.record["id"] != int(KEY)] for n, rows in some.items()}


def test_a_row_is_nowhere_and_all_else_is_as_it_was(
    lake: Lake, table: Table, engine: EngineChoice
) -> None:
    before = states(table, table.snapshot())
    old = [v.fingerprint.encode() for v in table.snapshot().frozen if v.number > 1]
    done = erase(engine, table, KEY)
    assert (done.keys, done.lines, done.left) == (1, 4, [])
    for item in lake.store.list(NAME.folder):
        assert not any(one in lake.store.get(item.key).data for one in old), item.key
    told = [(one.version, one.rows_before, one.rows) for one in done.versions]
    assert told == [(2, 4, 3), (3, 2, 1), (4, 3, 2)]
    after = table.snapshot()
    assert {n: rows for n, rows in states(table, after).items() if n in before} == less_her(before)
    assert [e.record["id"] for e in events(table, after) if e.kind].count(int(KEY)) == 0
    check_nowhere(lake)
    assert verify(table, None, engine).problems == []
    assert [t.operation for t in after.transactions[-4:]][:2] == ["erase-start", "erase"]
    assert after.transactions[-1].operation == Operation.VACUUM


def ids_of_versions(engine: EngineChoice, lake: Lake, *numbers: int) -> list[tuple[int, int]]:
    if engine.name == LOCAL:
        read = singerlake.Lake(lake.store).table(NAME)
        ids = {number: read.at(number).to_arrow()["id"].to_pylist() for number in numbers}
        return [(number, id_) for number, some in ids.items() for id_ in some]
    each = "select {0} as number, id from `tap`.`t` version as of '{0}'"
    assert engine.start is not None
    asked = query(engine.start(), lake, " union all ".join(map(each.format, numbers)))
    return [(number, id_) for number, id_ in asked.rows()]


def test_everything_goes_on_after_it(
    lake: Lake, table: Table, engine: EngineChoice, tmp_path: Path
) -> None:
    """Taps behind it, queries of versions, copies, a rebuild, a revert, and another erasure."""
    commit(lake, {"id": 6, "name": "Fay"})
    before = states(table, table.snapshot())
    head = table.snapshot()
    places = [
        {"bookmarks": {NAME.stream: {"transaction": one.number, "commit": one.commit}}}
        for one in head.transactions[:-1]
    ]
    before_it = [run_tap(lake, state=place) for place in places]
    erase(engine, table, KEY)
    for place, was in zip(places, before_it, strict=True):
        others = [row for row in was.records() if row["id"] != int(KEY)]
        assert run_tap(lake, state=place).records() == others
    found = ids_of_versions(engine, lake, 1, 2, 4)
    for number in (1, 2, 4):
        at = table.snapshot().version(str(number)).transaction
        ids = sorted(row.record["id"] for row in before[at] if row.record["id"] != int(KEY))
        assert sorted(id_ for version, id_ in found if version == number) == ids
    assert call.run(lake, "copy", lake.store.uri, str(tmp_path / "copy")).exit_code == 0
    copied = Lake.open(str(tmp_path / "copy"))
    assert states(copied.table(NAME), copied.table(NAME).snapshot()) == states(
        table, table.snapshot()
    )
    assert here.problems(copied.table(NAME)) == []
    lake.store.delete(NAME.manifest)
    rebuild_table(lake.store, NAME)
    assert here.problems(table) == []
    revert(table, RevertOptions(2), engine)
    assert int(KEY) not in {row.record["id"] for row in states(table, table.snapshot())[2]}
    erase(engine, table, "5")
    assert here.problems(table) == []


def test_without_a_key_single_lines_go(lake: Lake, engine: EngineChoice) -> None:
    commit(lake, HER, {"id": 1, "name": "Ada"}, 5, (HER, 5), keys=[])
    table = lake.table(NAME)
    here.freeze(table)
    done = erase(engine, table, "1:2")
    assert (done.keys, done.lines) == (1, 1)
    rows = [e.position for e in events(table, table.snapshot()) if e.kind]
    assert rows == [(1, 0), (1, 1)], "the others keep their places"
    assert [(v.rows, v.erased[0].rows_before) for v in table.snapshot().frozen] == [(0, 1)]
    ids, where = (("1:0",), None) if engine.name == LOCAL else ((), f"name = '{planted.TEXT}'")
    assert erase(engine, table, *ids, where=where).lines == 1
    document = call.run_json(lake, "erase", "--search", "--text", planted.TEXT)
    assert document["found"] == document["not_read"] == []
    assert here.problems(table) == []


def test_a_table_of_nobody_else_is_left_empty(lake: Lake, engine: EngineChoice) -> None:
    commit(lake, HER)
    commit(lake, 3, (HER, 3))
    table = lake.table(NAME)
    here.freeze(table, at=1)
    erase(engine, table, KEY)
    assert here.rows(table) == []
    check_nowhere(lake)
    assert here.problems(table) == []
    rebuild_table(table.store, NAME)
    commit(lake, {"id": 1, "name": "Ada"})
    assert here.rows(table) == [{"id": 1, "name": "Ada"}]


def test_what_would_bring_older_rows_back_is_refused(lake: Lake, engine: EngineChoice) -> None:
    """Under another key than the present one, another row stands behind it."""
    commit(lake, {"id": 1, "name": "Ada"}, {"id": 1, "name": planted.TEXT})
    table = lake.table(NAME)
    here.freeze(table)
    commit(lake, {"id": 1, "name": "Cy"}, keys=["id", "name"])
    before = [*lake.store.list("raw/")]
    with pytest.raises(UsageError, match=r'version 1 .* instead of these: \["1","Ada"\]'):
        erase(engine, table, f'["1", "{planted.TEXT}"]')
    after = {item.key for item in lake.store.list("raw/")} - {item.key for item in before}
    assert not after, "and nothing was written for it"
    assert table.snapshot().transactions[-1].operation == Operation.SYNC


def test_blocks_that_would_lose_another_line_or_keep_one_are_refused(
    lake: Lake, engine: EngineChoice
) -> None:
    ada, bob, cy = ({"id": n, "name": name} for n, name in enumerate(("Ada", "Bob", "Cy")))
    commit(lake, ada, bob, cy, HER)
    others = [[ada, bob, cy], [ada, bob], [ada, bob, cy, HER], [ada, bob, HER], [ada, bob, cy, cy]]
    for rows in others:
        commit(lake, *rows)
    table = lake.table(NAME)
    head = table.snapshot()
    before = head.at(1)
    gone = ErasedLines({1: pack(np.array([code(1, 3)]))}, 1)
    runs = engine.engine_for(Work(), "a test")
    for rows, block in zip(others, head.blocks[1:], strict=True):
        after = replace(before, blocks=[structs.replace(block, number=1)])
        proof = ErasureProof(runs, table, before, after, gone)
        with nullcontext() if rows == others[0] else pytest.raises(DamagedError):
            assert proof.versions() == []


def test_a_dry_run_changes_nothing(lake: Lake, table: Table, engine: EngineChoice) -> None:
    before = {item.key: (item.size, item.modified) for item in lake.store.list("")}
    done = erase(engine, table, KEY, options=EraseOptions("why", dry_run=True))
    assert (done.keys, done.lines, done.transaction) == (1, 4, None)
    assert [(one.version, one.rows) for one in done.versions] == [(2, 3), (3, 1), (4, 2)]
    assert {item.key: (item.size, item.modified) for item in lake.store.list("")} == before


@pytest.mark.parametrize("who", ["her again", "another", "a freeze"])
def test_who_commits_meanwhile(
    lake: Lake, table: Table, engine: EngineChoice, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of her: all is found anew. Of others: it goes on. A version: it is proved as well."""
    steps: list[Callable[[], object]] = [
        {
            "her again": lambda: commit(lake, {**HER, "name": f"{planted.TEXT} III"}),
            "another": lambda: commit(lake, {"id": 9, "name": "Ed"}),
            "a freeze": lambda: here.freeze(table, at=2, label="late"),
        }[who]
    ]
    written: list[int] = []
    plain = job._Job._write

    def write(self: Any, found: Any) -> Any:
        blocks = plain(self, found)
        written.append(len(blocks))
        if steps:
            steps.pop()()
        return blocks

    monkeypatch.setattr(job._Job, "_write", write)
    done = erase(engine, table, KEY)
    assert len(written) == (1 if who == "another" else 2)
    assert done.lines == (5 if who == "her again" else 4)
    assert len(done.versions) == (4 if who == "a freeze" else 3)
    check_nowhere(lake)
    assert here.problems(table) == []


def test_who_writes_it_again_and_again_is_told(
    lake: Lake, table: Table, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = job._Job._write

    def write(self: Any, found: Any) -> Any:
        blocks = plain(self, found)
        commit(lake, HER)
        return blocks

    monkeypatch.setattr(job._Job, "_write", write)
    monkeypatch.setattr(job, "ATTEMPTS", 2)
    with pytest.raises(ConflictError, match="remove them from the source first"):
        erase(engine, table, KEY)
    assert Operation.ERASE not in {t.operation for t in table.snapshot().transactions}


def test_a_vacuum_finishes_what_was_killed_after_the_commit(
    lake: Lake, table: Table, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its usual retention. Until then no reader sees the row, whatever index is there."""
    built = index_here(table, table.snapshot())
    assert index.load(table, built.snapshot) is not None
    with monkeypatch.context() as patch:
        patch.setattr(job, "sweep_erased", lambda *_: Swept())
        erase(engine, table, KEY)
    head = table.snapshot()
    assert index.load(table, head.at(built.snapshot.number)) is None
    ids = singerlake.Lake(lake.store).table(NAME).at().to_arrow()["id"]
    assert int(KEY) not in ids.to_pylist()
    assert call.run_json(lake, "erase", "--search", str(NAME), "--key", KEY, code=5)["found"]
    vacuum(table, VacuumOptions(lease_wait_seconds=0), engine)
    check_nowhere(lake)
    assert here.problems(table) == []
    later = VacuumOptions(retain_seconds=0, guard=False, parts=PARTS, lease_wait_seconds=0)
    vacuum(table, later, engine)
    assert here.problems(table) == []


def test_a_dropped_table_comes_back_without_her(
    lake: Lake, table: Table, engine: EngineChoice
) -> None:
    """By the command line; and what is left of the table waits for a vacuum as it did."""
    before = states(table, table.snapshot())
    drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)
    at = table.snapshot(dropped=True).dropped_at
    said = call.run_json(lake, "erase", str(NAME), "--key", KEY, "--reason", "request 12")
    assert (said["rows"], said["row_versions"], said["left"]) == (1, 4, [])
    told = [(one["version"], one["rows_before"], one["rows"]) for one in said["versions"]]
    assert told == [(2, 4, 3), (3, 2, 1), (4, 3, 2)]
    check_nowhere(lake)
    assert here.problems(table) == []
    head = table.snapshot(dropped=True)
    assert (head.dropped_at, head.restorable is not None) == (at, True)
    kept = plan_vacuum(lake.store, head, VacuumOptions()).garbage
    assert {table.name.key(block.file) for block in head.restorable or ()} <= {
        item.key for item in kept.kept
    }
    assert kept.files == []
    call.run_json(lake, "erase", str(NAME), "--key", KEY, "--reason", "again", code=3)
    undrop_table(lake.store, head, AlterOptions())
    after = table.snapshot()
    assert {n: rows for n, rows in states(table, after).items() if n in before} == less_her(before)
    assert here.problems(table) == []
    assert [version.number for version in after.frozen] == [1, 2, 4]


@pytest.mark.parametrize(
    "what",
    [
        "data that no log names",
        "a block that was cut off",
        "a staged file",
        "an index",
        "a file of JSON lines",
    ],
)
def test_what_was_left_behind_goes_too(lake: Lake, engine: EngineChoice, what: str) -> None:
    commit(lake, {"id": 1, "name": "Ada"}, HER)
    planted.plant(lake.store, *planted.WITH_ROWS[what])
    erase(engine, lake.table(NAME), KEY)
    check_nowhere(lake)


def test_readers_are_told_for_a_time(lake: Lake, table: Table, engine: EngineChoice) -> None:
    """With the keys as records spell them, in the names that people have for the columns."""
    says = partial(with_name, name="id", new="number")
    alter(table.store, table.snapshot(), says, AlterOptions())
    state = run_tap(lake).state
    told = replace(WHY, tell_seconds=3600)
    done = erase(engine, table, KEY, "1", options=told)
    assert done.told_until > table.snapshot().transactions[-1].time
    rows = run_tap(lake, state=state).records()
    [mark] = {row.pop("_sdc_deleted_at") for row in rows}
    assert mark == table.snapshot().summary(done.transaction or 0).time
    blank = {"name": None}
    assert sorted(rows, key=str) == [{"number": 1, **blank}, {"number": int(KEY), **blank}]
    document = call.run_json(lake, "erase", "--search", str(NAME), "--key", KEY, code=5)
    assert {one["kind"] for one in document["found"]} == {"notice"}
    [item] = lake.store.list(f"{NAME.folder}erased/")
    assert gzip.decompress(lake.store.get(item.key).data).count(b"\n") == 2


def test_of_a_run_that_did_not_commit_no_key_is_left(
    lake: Lake, table: Table, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise UsageError("no")

    monkeypatch.setattr(job._Job, "_entry", refuse)
    with pytest.raises(UsageError, match="no"):
        erase(engine, table, KEY, options=replace(WHY, tell_seconds=3600))
    assert not [*lake.store.list(f"{NAME.folder}erased/")]


def test_no_row_comes_with_a_blocked_key_again(
    lake: Lake, table: Table, engine: EngineChoice, tmp_path: Path
) -> None:
    """Neither by a sync nor by a change, in the lake or in a copy of it."""
    blocking = replace(WHY, block=True)
    dry = erase(engine, table, KEY, options=replace(blocking, dry_run=True))
    assert dry.blocked == 1
    assert table.snapshot().blocked is None
    done = erase(engine, table, KEY, options=blocking)
    assert (done.lines, done.blocked) == (4, 1)
    [entry] = [one for one in table.entries() if one.operation == Operation.ERASE]
    assert entry.blocked is not None
    assert (entry.blocked.keys, entry.blocked.columns) == (1, ["id"])
    check_nowhere(lake)
    with pytest.raises(ConflictError, match="blocked"):
        commit(lake, HER)  # by a writer that knows nothing of it
    rows = [{**HER, "name": "x"}, {"id": 8, "name": "new"}]
    runs = engine.engine_for(Work(), "a test")
    changed = change(runs, table, lambda head: [row_set(runs, head, rows)], Mode.UPSERT)
    assert (changed.inserted, changed.blocked) == (1, 1)
    again = erase(engine, table, KEY, "77", options=blocking)
    assert (again.lines, again.blocked) == (0, 1), "one that no row has, and one as it was"
    assert table.snapshot().transactions[-1].operation == Operation.VACUUM
    head = table.snapshot()
    assert head.blocked is not None
    assert [item.key for item in lake.store.list(f"{NAME.folder}erased/")] == [
        key_of(NAME, head.blocked)
    ]
    assert call.run(lake, "copy", lake.store.uri, str(tmp_path / "copy")).exit_code == 0
    copied = Lake.open(str(tmp_path / "copy"))
    assert are_blocked(copied.store, copied.table(NAME).snapshot(), [KEY, "77", "8"]) == [
        True,
        True,
        False,
    ]
    assert here.problems(table) == []
