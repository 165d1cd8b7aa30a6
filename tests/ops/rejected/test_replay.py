"""Replays: rejected records become rows once the table takes them, each once."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake import api
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format.log import Operation
from singerlake.format.overlay import Constraint, Overlay
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.alter.alter import alter
from singerlake.ops.rejected import listing
from singerlake.ops.rejected import replay as replaying
from singerlake.ops.rejected.replay import BLOCKED, OLDER, ReplayOptions, replay
from singerlake.ops.undo import UndoOptions, undo
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions
from singerlake.overlay.alter import alter as alter_without_rows
from tests.build import commit_rows
from tests.ops.rejected.shop import (
    EITHER,
    NAME,
    NEW,
    NUMBER,
    OLD,
    kept_totals,
    row,
    sync,
    table_of,
    totals,
)
from tests.target.harness import activate, lines_of, record

HERE = EngineChoice(LOCAL)
DELETED = "_sdc_deleted_at"


def altered(lake: Lake, change: Callable[[TableState], Overlay]) -> None:
    alter(table_of(lake), change, AlterOptions(), HERE)


def reasons(done: replaying.Replayed) -> dict[str, int]:
    return {one.reason: one.lines for one in done.reasons}


def dead_letters(lake: Lake) -> api.Table:
    return api.Lake(lake.store)[f"{NAME}__rejected"]


def operations(table: Table) -> list[str]:
    return [one.operation for one in table.snapshot().transactions]


def test_replay_commits_records_that_pass_under_the_schema_of_today(lake: Lake) -> None:
    sync(lake, row(1, 1.5), row(2, "two"), row(3, "three"), row("x", 4))
    sync(lake, schema=EITHER)
    table = table_of(lake)
    done = table.rejected().replay(comment="the schema is wider now")
    assert (done.transaction, done.replayed, done.present, done.kept) == (3, 2, 0, 1)
    assert totals(lake) == {1: "1.5", 2: "two", 3: "three"}
    entry = [*table.entries()][-1]
    said = entry.metadata["rejected"]
    assert entry.operation == Operation.REPLAY
    assert (said["table"], said["transaction"]) == (f"{NAME}__rejected", 1)
    assert len(base64.b64decode(said["digests"])) == 2 * 32
    assert entry.metadata["comment"] == "the schema is wider now"
    assert entry.metrics == {"replayed": 2}
    [left] = table.rejected()
    assert left.reason == 'field \'id\': "x" is not of type "integer"'


def test_replayed_lines_have_the_bytes_that_the_tap_sent(lake: Lake) -> None:
    lines = [
        row(2, "two", time_extracted=OLD),
        b' {"stream":"a", "type":"RECORD","record":{"id" :3,"total":"x"}} ',
    ]
    sync(lake, *lines)
    sync(lake, schema=EITHER)
    table_of(lake).rejected().replay()
    first, second = lines_of(lake.store.uri, "a")
    assert first == lines[0]
    assert second.startswith(lines[1].rstrip(b" }")), "only the time is added"
    assert json.loads(second)["time_extracted"]


def test_replay_again_replays_nothing(lake: Lake) -> None:
    sync(lake, row(2, "two"), row("x", 4))
    sync(lake, schema=EITHER)
    table = table_of(lake)
    table.rejected().replay()
    before = [operations(table), operations(lake.table(f"{NAME}__rejected"))]
    done = table.rejected().replay()
    assert (done.transaction, done.replayed, done.kept) == (None, 0, 1)
    assert [operations(table), operations(lake.table(f"{NAME}__rejected"))] == before


def test_dry_run_changes_nothing(lake: Lake) -> None:
    sync(lake, row(2, "two"), row("x", 4))
    sync(lake, schema=EITHER)
    before = {one.key for one in lake.store.list("")}
    done = table_of(lake).rejected().replay(dry_run=True)
    assert (done.transaction, done.replayed, done.kept) == (None, 1, 1)
    # What reads a table may leave the files of its snapshot.
    left = {one.key for one in lake.store.list("") if not one.key.startswith("index/")}
    assert left <= before


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(("time", "wins"), [(OLD, False), (NEW, False), (None, True)])
def test_record_that_is_not_newer_than_the_row_stays(
    lake: Lake, time: str | None, wins: bool, deletes: bool
) -> None:
    more = {} if time is None else {"time_extracted": time}
    sync(lake, row(1, "late", **more))
    there = {"id": 1, "total": 7, **({DELETED: NEW} if deletes else {})}
    sync(lake, record("a", there, time_extracted=NEW), schema=EITHER)
    done = table_of(lake).rejected().replay()
    before = {} if deletes else {1: "7"}
    assert totals(lake) == ({1: "late"} if wins else before)
    assert reasons(done) == ({} if wins else {OLDER: 1})
    done = table_of(lake).rejected().replay(overwrite=True)
    assert done.replayed == (not wins)
    assert totals(lake) == {1: "late"}


def test_time_of_a_record_is_that_of_its_rejection_also_after_its_reason_changed(
    lake: Lake,
) -> None:
    sync(lake, row(1, "first"))
    sync(lake, row(1, 5))
    assert reasons(table_of(lake).rejected().replay()) == {
        "field 'total': … is not of type \"number\"": 1
    }
    sync(lake, schema=EITHER)
    assert reasons(table_of(lake).rejected().replay()) == {OLDER: 1}


def test_record_of_an_earlier_version_of_the_stream_stays(lake: Lake) -> None:
    sync(lake, activate("a", 5), row(1, "gone", version=5))
    sync(lake, row(2, 2, version=6), activate("a", 6), schema=EITHER)
    done = table_of(lake).rejected().replay()
    assert done.kept == 1 and "version 5 of the stream" in done.reasons[0].reason
    table_of(lake).rejected().replay(overwrite=True)
    assert totals(lake) == {1: "gone", 2: "2"}


def test_record_that_is_the_newest_row_already_is_taken_off_the_list(lake: Lake) -> None:
    sync(lake, row(1, "one"))
    sync(lake, row(1, "one"), schema=EITHER)
    done = table_of(lake).rejected().replay()
    assert (done.transaction, done.replayed, done.present, done.kept) == (None, 0, 1, 0)
    assert kept_totals(lake) == []


def test_record_that_is_rejected_again_after_its_replay_is_another_rejection(lake: Lake) -> None:
    sync(lake, row(1, "one"))
    sync(lake, schema=EITHER)
    table_of(lake).rejected().replay()
    sync(lake, row(1, 2), row(1, "one", time_extracted="2030-01-01T00:00:00Z"))
    sync(lake, schema=EITHER)
    assert kept_totals(lake) == ["one"]
    assert table_of(lake).rejected().replay().replayed == 1
    assert totals(lake) == {1: "one"}


def test_records_of_one_key_come_in_the_order_of_their_times(lake: Lake) -> None:
    sync(lake, row(1, "new", time_extracted=NEW), row(1, "old", time_extracted=OLD))
    sync(lake, schema=EITHER)
    assert table_of(lake).rejected().replay().replayed == 2
    assert totals(lake) == {1: "new"}


def test_table_without_a_key_gets_each_record_of_a_run_once(lake: Lake) -> None:
    lines = [row(1, "one"), row(1, "two"), row(1, "one"), row(1, "one")]
    sync(lake, *lines[:3], keys=())  # the run died, and comes again as a whole
    sync(lake, *lines, keys=())
    sync(lake, schema=EITHER, keys=())
    table = table_of(lake)
    assert table.rejected().replay().replayed == 4
    assert table.rejected().replay().replayed == 0
    rows = table.at(engine="local").to_arrow().to_pylist()
    assert sorted(one["total"] for one in rows) == ["one", "one", "one", "two"]


def test_equal_records_of_a_table_with_a_key_are_listed_once(lake: Lake) -> None:
    sync(lake, row(1, "one"), row(1, "one"))
    assert kept_totals(lake) == ["one"]


def test_equal_records_of_a_batch_file_are_each_listed_without_a_key(
    lake: Lake, tmp_path: Path
) -> None:
    file = tmp_path / "b.json"
    file.write_bytes(b'{"id":1,"total":"x"}\n' * 2)
    batch = {
        "type": "BATCH",
        "stream": "a",
        "encoding": {"format": "jsonl"},
        "manifest": [file.as_uri()],
    }
    sync(lake, json.dumps(batch).encode(), batch_roots=[str(tmp_path)], keys=())
    assert len([*table_of(lake).rejected()]) == 2


# Overrides and constraints.


def test_column_that_is_text_now_takes_any_value(lake: Lake) -> None:
    sync(lake, row(1, "1,5"), row(2, [1, {"x": None}]), row(3, 3.5))
    altered(lake, lambda head: says.with_type(head, "total", None))
    assert table_of(lake).rejected().replay().kept == 0
    assert totals(lake) == {1: "1,5", 2: '[1, {"x": null}]', 3: "3.5"}


def test_column_of_another_type_takes_what_fits_that_type(lake: Lake) -> None:
    words = {**NUMBER, "total": {"type": "string"}}
    sync(lake, row(1, 5), row(2, "six"), row(3, "7"), schema=words)
    sync(
        lake,
        record("a", {"id": 2, DELETED: NEW}, time_extracted="2030-01-01T00:00:00Z"),
        schema=words,
    )
    altered(lake, lambda head: says.with_type(head, "total", {"type": ["null", "integer"]}))
    done = table_of(lake).rejected().replay()
    assert (done.replayed, done.kept) == (1, 0)
    assert totals(lake) == {1: 5, 3: 7}


def test_value_that_no_query_could_read_stays_rejected(lake: Lake) -> None:
    times = {**NUMBER, "total": {"type": "string", "format": "date-time", "maxLength": 3}}
    sync(lake, row(1, "soon"), schema=times)
    sync(lake, schema={**NUMBER, "total": {"type": "string", "format": "date-time"}})
    done = table_of(lake).rejected().replay()
    [reason] = reasons(done)
    assert reason.startswith("the value … of column 'total' is not a valid")
    assert reason.endswith("so queries of the column would fail")


def test_format_is_checked_for_records_that_were_rejected_for_it(lake: Lake) -> None:
    mail = {**NUMBER, "total": {"type": "string", "format": "email"}}
    sync(lake, row(1, "nobody"), schema=mail, validate_formats=True)
    assert table_of(lake).rejected().replay().kept == 1
    sync(lake, schema={**NUMBER, "total": {"type": "string"}})
    assert table_of(lake).rejected().replay().replayed == 1


@pytest.mark.parametrize(
    ("constraint", "word"),
    [
        (Constraint("enum", ["total"], values=[1, 2]), "is not one of"),
        (Constraint("range", ["total"], maximum=2), "maximum"),
        (Constraint("not-null", ["total"]), "is not of type"),
    ],
)
def test_constraint_of_today_keeps_a_record_out(
    lake: Lake, constraint: Constraint, word: str
) -> None:
    nullable = {**NUMBER, "total": {"type": ["null", "number"]}}
    bad = None if constraint.kind == "not-null" else 9
    sync(lake, row("3", bad), row("4", 2), schema=nullable)
    sync(lake, schema={**nullable, "id": {"type": ["integer", "string"]}})
    change = partial(says.with_constraint, name="c", constraint=constraint)
    alter_without_rows(lake.store, table_of(lake).snapshot(), change)
    done = table_of(lake).rejected().replay()
    assert totals(lake) == {"4": 2}
    assert [word in reason for reason in reasons(done)] == [True]


def test_renamed_and_dropped_columns_keep_their_names_in_records(lake: Lake) -> None:
    wide = {**NUMBER, "more": {"type": "string"}}
    sync(lake, record("a", {"id": 1, "total": "x", "more": "m"}), schema=wide)
    altered(lake, lambda head: says.with_name(head, "total", "amount"))
    altered(lake, lambda head: says.without_column(head, "more"))
    altered(lake, lambda head: says.with_type(head, "amount", None))
    assert table_of(lake).rejected().replay().replayed == 1
    [found] = table_of(lake).at(engine="local").to_arrow().to_pylist()
    assert found == {"id": 1, "amount": "x"}


def test_value_of_a_dropped_column_keeps_no_record_out(lake: Lake) -> None:
    wide = {**NUMBER, "more": {"type": "integer", "maximum": 5}}
    sync(lake, record("a", {"id": 1, "total": 1, "more": "m"}), row(2, 2), schema=wide)
    altered(lake, lambda head: says.without_column(head, "more"))
    assert table_of(lake).rejected().replay().replayed == 1
    assert totals(lake) == {1: 1, 2: 2}
    assert table_of(lake).verify(engine=LOCAL).problems == []
    alter_without_rows(
        lake.store, table_of(lake).snapshot(), lambda head: says.with_restored(head, "more")
    )
    state = table_of(lake).at(engine="local", on_type_mismatch="null")
    assert {one["id"]: one["more"] for one in state.to_arrow().to_pylist()} == {1: None, 2: None}


def test_key_that_is_text_by_an_override_has_the_type_of_the_tap(lake: Lake) -> None:
    """As in a sync: a key whose values have several types cannot be made another any more."""
    sync(lake, row("A7", 1), row(2, 2))
    altered(lake, lambda head: says.with_type(head, "id", None))
    done = table_of(lake).rejected().replay()
    assert reasons(done) == {"field 'id': … is not of type \"integer\"": 1}


def test_key_by_override_tells_rows_apart(lake: Lake) -> None:
    sync(lake, row(1, "late"), row(2, 5))
    altered(lake, lambda head: says.with_type(head, "total", None))
    altered(lake, lambda head: says.with_key(head, ["total"]))
    done = table_of(lake).rejected().replay()
    assert done.kept == 1, "a key of numbers takes no text under the tap's schema"
    assert "is not of type" in done.reasons[0].reason


# Beside others, and after a crash.


def test_replay_that_died_between_the_two_commits_is_not_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row("x", 4), keys=())
    sync(lake, schema=EITHER, keys=())
    with monkeypatch.context() as patch:
        patch.setattr(replaying, "settle", _dies)
        with pytest.raises(KeyboardInterrupt):
            table_of(lake).rejected().replay()
    assert operations(table_of(lake))[-1] == "replay"
    assert kept_totals(lake) == [4], "it is not listed, whatever its dead-letter table says"
    done = table_of(lake).rejected().replay()
    assert (done.transaction, done.replayed, done.kept) == (None, 0, 1)
    rejected = lake.table(f"{NAME}__rejected")
    assert operations(rejected) == ["sync", "replay"]
    assert [*rejected.entries()][-1].metrics == {"removed": 1, "kept": 1}
    assert len(table_of(lake).at(engine="local").to_arrow()) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_discard_after_a_replay_that_died_counts_what_is_listed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    sync(lake, row(1, "one"), row("x", 4), row("y", 4), keys=())
    sync(lake, schema=EITHER, keys=())
    with monkeypatch.context() as patch:
        patch.setattr(replaying, "settle", _dies)
        with pytest.raises(KeyboardInterrupt):
            table_of(lake).rejected().replay()
    assert table_of(lake).rejected('*"one"*').discard(dry_run=dry_run) == 0
    assert table_of(lake).rejected("*").discard(dry_run=dry_run) == 2
    assert kept_totals(lake) == ([4, 4] if dry_run else [])
    done = table_of(lake).rejected().replay()
    assert (done.replayed, done.present) == (0, 0)
    assert table_of(lake).at(engine="local").to_arrow().num_rows == 1


def _dies(*_: Any) -> None:
    raise KeyboardInterrupt


def test_second_replay_of_the_same_records_commits_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row(2, "two"), keys=())
    sync(lake, schema=EITHER, keys=())
    _meanwhile(monkeypatch, lambda: _unlocked_replay(lake, monkeypatch))
    done = table_of(lake).rejected().replay()
    assert done.replayed == 0
    assert operations(table_of(lake)).count("replay") == 1
    assert len(table_of(lake).at(engine="local").to_arrow()) == 2


def _meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something once, between the plan of a replay and its commit."""
    own, left = replaying.commit, [act]

    def commit(*args: Any, **more: Any) -> Any:
        while left:
            left.pop()()
        return own(*args, **more)

    monkeypatch.setattr(replaying, "commit", commit)


def _unlocked_replay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that took the lock over from one that looked dead."""
    with monkeypatch.context() as patch:
        patch.setattr(replaying, "lock", _NoLock)
        patch.setattr(replaying, "hold_locks", _NoLock)
        assert table_of(lake).rejected().replay().replayed == 2


class _NoLock:
    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> _NoLock:
        return self

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None: ...


def test_sync_that_brings_a_newer_row_meanwhile_is_not_overwritten(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one", time_extracted=OLD), row(2, "two", time_extracted=OLD))
    sync(lake, schema=EITHER)
    newer = row(1, "newer", time_extracted=NEW)
    _meanwhile(monkeypatch, lambda: sync(lake, newer, schema=EITHER, lock_wait_seconds=0))
    with monkeypatch.context() as patch:
        # The sync writes under the same schema, whose lock the replay has.
        patch.setattr(replaying, "hold_locks", _NoLock)
        done = table_of(lake).rejected().replay()
    assert (done.replayed, reasons(done)) == (1, {OLDER: 1})
    assert totals(lake) == {1: "newer", 2: "two"}


def test_sync_of_other_rows_meanwhile_is_in_nobodys_way(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one", time_extracted=OLD))
    sync(lake, schema=EITHER)
    looks: list[int] = []
    own = replaying._Replay._plan
    monkeypatch.setattr(
        replaying._Replay, "_plan", lambda self, head: looks.append(1) or own(self, head)
    )
    _meanwhile(monkeypatch, lambda: sync(lake, row(2, 2), schema=EITHER, lock_wait_seconds=0))
    monkeypatch.setattr(replaying, "hold_locks", _NoLock)
    assert table_of(lake).rejected().replay().transaction == 4
    assert len(looks) == 1, "nothing is planned again"
    assert totals(lake) == {1: "one", 2: "2"}


def test_line_that_is_rejected_again_meanwhile_stays_until_the_next_replay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"))
    sync(lake, schema=EITHER)
    _meanwhile(monkeypatch, lambda: sync(lake, row(1, "one"), lock_wait_seconds=0))
    monkeypatch.setattr(replaying, "hold_locks", _NoLock)
    done = table_of(lake).rejected().replay()
    # The sync put the earlier schema back into effect, so the record does not pass any more.
    assert (done.replayed, done.kept) == (0, 1)
    sync(lake, schema=EITHER)
    assert table_of(lake).rejected().replay().replayed == 1
    assert kept_totals(lake) == []


def test_vacuum_at_work_keeps_a_replay_from_beginning(lake: Lake) -> None:
    sync(lake, row(1, "one"))
    sync(lake, schema=EITHER)
    rejected = lake.table(f"{NAME}__rejected")
    lively = WriteOptions(lock_stale_seconds=0.4)  # its lock is refreshed four times in this time
    with (
        listing.lock(rejected, lively),
        pytest.raises(ConflictError, match="a vacuum, an erasure or another replay of"),
    ):
        table_of(lake).rejected().replay()
    assert operations(table_of(lake)) == ["sync", "sync"]


def test_undone_replay_leaves_the_table_as_it_was(lake: Lake) -> None:
    sync(lake, row(1, 1), row(2, "two"))
    sync(lake, schema=EITHER)
    before = totals(lake)
    done = table_of(lake).rejected().replay()
    assert done.transaction is not None
    undo(table_of(lake), UndoOptions([done.transaction]), HERE)
    assert totals(lake) == before
    rejected = dead_letters(lake)
    undo(rejected, UndoOptions([2]), HERE)
    assert kept_totals(lake) == ["two"]
    assert table_of(lake).rejected().replay().replayed == 1
    assert totals(lake) == {1: "1", 2: "two"}


@pytest.mark.parametrize("there", ["row", "deletion"])
def test_undone_replay_leaves_newer_rows_and_deletions_of_the_source_in_force(
    lake: Lake, there: str
) -> None:
    sync(lake, row(1, "late", time_extracted=OLD))
    newer = {"id": 1, "total": 7, **({} if there == "row" else {DELETED: NEW})}
    sync(lake, record("a", newer, time_extracted=NEW), schema=EITHER)
    before = totals(lake)
    done = table_of(lake).rejected().replay(overwrite=True)
    undo(table_of(lake), UndoOptions([done.transaction or 0]), HERE)
    undo(dead_letters(lake), UndoOptions([2]), HERE)
    assert reasons(table_of(lake).rejected().replay()) == {OLDER: 1}
    assert totals(lake) == before


# What cannot be replayed.


def test_blocked_key_stays_rejected(lake: Lake) -> None:
    sync(lake, row(1, 1), row(2, "two"))
    sync(lake, schema=EITHER)
    table = table_of(lake)
    table.erase(["1"], reason="asked", block=True, engine=LOCAL, allow_text_mentions=True)
    sync(lake, row(1, "back", time_extracted="2030-01-01T00:00:00Z"))
    sync(lake, schema=EITHER)
    done = table.rejected().replay()
    assert (done.replayed, reasons(done)) == (1, {BLOCKED: 1})
    assert totals(lake) == {2: "two"}


def test_erased_line_does_not_come_back(lake: Lake) -> None:
    sync(lake, row(1, 1), row(2, "two"), row(3, "three"))
    sync(lake, schema=EITHER)
    table = table_of(lake)
    table.rejected(reason="x").replay()
    digest = next(line.digest for line in table.rejected() if b"two" in line.text)
    dead_letters(lake).erase([digest], reason="asked", engine=LOCAL)
    assert table.rejected().replay().replayed == 1
    assert totals(lake) == {1: "1", 3: "three"}


def test_erased_row_takes_its_digest_out_of_the_log(lake: Lake) -> None:
    sync(lake, row(2, "two"), row(3, "three"))
    sync(lake, schema=EITHER)
    table = table_of(lake)
    table.rejected().replay()
    digests = [line["digest"] for line in _rows(lake)]
    dead_letters(lake).erase(digests, reason="asked", engine=LOCAL)
    table.erase(["2"], reason="asked", engine=LOCAL)
    entry = next(one for one in table.entries() if one.operation == Operation.REPLAY)
    assert "digests" not in entry.metadata["rejected"]
    assert entry.rewritten
    assert table.verify(engine=LOCAL).problems == []


def _rows(lake: Lake) -> list[Any]:
    return [json.loads(line)["record"] for line in lines_of(lake.store.uri, "a__rejected")]


def test_records_of_batch_files_are_replayed(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    file.write_bytes(
        b'{"id":1,"total":2}\n {"id":2,"total":"x"} \n'
        b'{"id":3,"total":"y","_sdc_extracted_at":"2026-01-01T00:00:00Z"}\n'
    )
    batch = {
        "type": "BATCH",
        "stream": "a",
        "encoding": {"format": "jsonl"},
        "manifest": [file.as_uri()],
    }
    sync(lake, json.dumps(batch).encode(), batch_roots=[str(tmp_path)])
    assert len([*table_of(lake).rejected()]) == 2
    sync(lake, schema=EITHER)
    assert table_of(lake).rejected().replay().replayed == 2
    assert totals(lake) == {1: "2", 2: "x", 3: "y"}
    assert b'"record":{"id":2,"total":"x"},' in lines_of(lake.store.uri, "a")[2]
    assert (
        json.loads(lines_of(lake.store.uri, "a")[1])["time_extracted"]
        == "2026-01-01T00:00:00.000000Z"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"RECORD","stream":"a"}', "the line is not a RECORD message"),
        (b'{"type":"HELLO","stream":"a","record":{"id":1}}', "one of type …"),
        (b'{"type":"RECORD","stream":"a","record":{"id":2,"total":"\xff"}}', "not UTF-8"),
        (b'{"type":"RECORD","stream":"a","record":[1]}', "not an object"),
        (b'{"type":"RECORD","stream":"a","record":{"total":"x"}}', "has no value for its key 'id'"),
        (
            b'{"type":"RECORD","stream":"a","record":{"id":2,"total":"\\ud800"}}',
            "not a RECORD message",
        ),
        (b'{"type":"RECORD","stream":"a","record":{"id":2},"version":"x"}', "not a RECORD message"),
        (b'{"type":"RECORD","stream":"a","rec', "the line is not a RECORD message"),
        (
            b'{"type":"RECORD","stream":"a","record":{"id":2,"x":%b}}' % (b"[" * 799 + b"]" * 799),
            "nested more than 800 levels deep",
        ),
    ],
)
def test_line_that_is_no_record_of_the_table_stays(lake: Lake, line: bytes, reason: str) -> None:
    sync(lake, line)
    sync(lake, schema=EITHER)
    done = table_of(lake).rejected().replay()
    assert (done.replayed, done.kept) == (0, 1)
    assert reason in done.reasons[0].reason
    assert [one.text for one in table_of(lake).rejected()] == [line]


def test_replay_of_a_stream_without_rejected_records(lake: Lake) -> None:
    sync(lake, row(1, 1))
    with pytest.raises(NotFoundError, match="no records of tap-test.a were rejected"):
        table_of(lake).rejected().replay()


def test_replay_into_a_stream_that_has_the_name(lake: Lake) -> None:
    sync(lake, row(1, 1))
    commit_rows(lake, f"{NAME}__rejected", NUMBER, ["id"], [{"id": 1}])
    with pytest.raises(UsageError, match="does not hold rejected records"):
        table_of(lake).rejected().replay()


def test_replay_of_attached_files_is_refused(lake: Lake) -> None:
    photo = {**NUMBER, "total": {"type": ["object", "null"], "format": "singer.file"}}
    sync(lake, row("x", None), schema=photo)
    with pytest.raises(UsageError, match="--export, and pipe them into target-singerlake"):
        table_of(lake).rejected().replay()


def test_more_records_than_one_transaction_takes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, row(1, "one"), row(2, "two"))
    sync(lake, schema=EITHER)
    monkeypatch.setattr(replaying, "MOST", 1)
    with pytest.raises(UsageError, match="2 records can be replayed"):
        table_of(lake).rejected().replay()
    assert table_of(lake).rejected(reason="one").replay().replayed == 1


def test_replay_on_spark_finds_the_same_newer_rows(lake: Lake, spark: Any) -> None:
    sync(lake, *(row(n, "late", time_extracted=OLD) for n in range(8)))
    sync(lake, *(row(n, n, time_extracted=NEW) for n in range(4)), schema=EITHER)
    choice = EngineChoice.of(SPARK, spark=spark)
    done = replay(table_of(lake), ReplayOptions(), choice)
    assert (done.replayed, reasons(done)) == (4, {OLDER: 4})
