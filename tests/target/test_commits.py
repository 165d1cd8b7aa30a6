"""Schemas, transactions and STATE: what is committed when, and what goes out after it."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import (
    ConflictError,
    LockTimeoutError,
    OutcomeUnknownError,
    StoreError,
    UsageError,
)
from singerlake.format import tap_state
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.storage.local.store import LocalStaged, LocalStore
from target_singerlake import committing
from target_singerlake import run as run_module
from target_singerlake.target import TargetSingerlake
from tests.target.harness import (
    TAP,
    activate,
    data_files,
    leftovers,
    lines_of,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
    text,
)


def snapshot(lake: Path, stream: str) -> Any:
    return Lake.open(str(lake)).find(f"{TAP}.{stream}")[0].snapshot()


def entries(lake: Path, stream: str) -> list[Any]:
    return list(Lake.open(str(lake)).find(f"{TAP}.{stream}")[0].entries())


OTHER = {"id": {"type": "integer"}, "name": {"type": "string"}}


def test_a_schema_change_makes_a_folder_in_the_same_transaction(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lines = [
        schema("a"),
        record("a", {"id": 1}),
        schema("a", OTHER),
        record("a", {"id": 2}),
        schema("a"),
        record("a", {"id": 3}),
    ]
    run(lake, lines)
    [entry] = entries(lake, "a")
    assert [block.number for block in entry.blocks] == [1, 2, 3]
    first, second, third = (block.schema_hash for block in entry.blocks)
    assert first == third != second
    assert entry.schema_hash == first
    assert list(entry.schemas) == [first, second]
    assert records_of(lake, "a") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert len(data_files(lake)) == 2


def test_a_schema_repeated_makes_nothing_new(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    spaced = schema("a").replace(b": ", b":  ")
    run(lake, [schema("a"), record("a", {"id": 1}), schema("a"), record("a", {"id": 2})])
    assert len(snapshot(lake, "a").blocks) == 1
    for lines in ([schema("a")], [spaced], [schema("a"), spaced, schema("a"), state(1)]):
        run(lake, lines)
    assert snapshot(lake, "a").number == 1
    assert len({path.parent for path in data_files(lake)}) == 1
    run(lake, [spaced, record("a", {"id": 3})])
    assert snapshot(lake, "a").number == 2
    assert len({path.parent for path in data_files(lake)}) == 1


def test_a_schema_alone_makes_an_empty_table(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert run(lake, [schema("a", keys=["id"]), state({"x": 1})]) == [{"x": 1}]
    assert snapshot(lake, "a").number == 1
    assert snapshot(lake, "a").schema.key_properties == ["id"]
    assert records_of(lake, "a") == []
    run(lake, [schema("a", OTHER)])  # a new schema alone is a change
    assert snapshot(lake, "a").number == 2


def test_empty_input_puts_out_nothing_and_makes_nothing(tmp_path: Path) -> None:
    for data in (b"", b"\n", b"\n \n"):
        assert run(tmp_path / "lake", data) == []
    assert not (tmp_path / "lake").exists()


def test_only_the_last_state_goes_out_even_when_records_follow(tmp_path: Path) -> None:
    lines = [schema("a"), state(1), record("a", {"id": 1}), state({"b": 2}), record("a", {"id": 2})]
    assert run(tmp_path / "lake", lines) == [{"b": 2}]
    assert len(records_of(tmp_path / "lake", "a")) == 2


def test_a_state_goes_out_as_it_came_on_any_console(tmp_path: Path) -> None:
    odd = '{"ä": 1.10,  "big": 123456789012345678901234567890}'
    [found] = run(tmp_path / "lake", [b'{"type":"STATE","value": %s }' % odd.encode()])
    assert found == json.loads(odd)  # the harness's console spells ASCII only


def test_a_state_commits_once_enough_bytes_have_gathered(tmp_path: Path) -> None:
    lines = [schema("a")]
    for n in range(6):
        lines += [record("a", {"id": n}), state(n)]
    one = len(record("a", {"id": 0})) + 1
    assert run(tmp_path / "lake", lines, commit_bytes=2 * one) == [1, 3, 5]
    assert [entry.rows for entry in entries(tmp_path / "lake", "a")] == [2, 2, 2]


def test_a_state_commits_once_enough_time_has_passed(tmp_path: Path, monkeypatch: Any) -> None:
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(run_module.time, "monotonic", lambda: next(clock))
    lines = [schema("a")]
    for n in range(6):
        lines += [record("a", {"id": n}), state(n)]
    states = run(tmp_path / "lake", lines, commit_minutes=1)
    assert 1 < len(states) < 6
    assert states[-1] == 5


def test_every_state_commits_with_zero_minutes(tmp_path: Path) -> None:
    lines = [schema("a"), schema("b")]
    for n in range(3):
        lines += [record("a", {"id": n}), state(n), state(n)]
    assert run(tmp_path / "lake", lines, commit_minutes=0) == [0, 0, 1, 1, 2, 2]
    assert tables(tmp_path / "lake") == {"a": 3, "b": 1}


def test_atomic_makes_one_transaction_a_table(tmp_path: Path) -> None:
    lines = [schema("a"), schema("b")]
    for n in range(5):
        lines += [record("a", {"id": n}), record("b", {"id": n}), state(n)]
    states = run(tmp_path / "lake", lines, commit_minutes=0, commit_bytes=1, atomic=True)
    assert states == [4]
    assert tables(tmp_path / "lake") == {"a": 1, "b": 1}


def test_activate_version_is_kept_in_its_place(tmp_path: Path) -> None:
    lines = [schema("a"), activate("a", 1), record("a", {"id": 1}, version=1)]
    lines += [activate("a", 2), record("a", {"id": 2}, version=2), activate("a", 3)]
    run(tmp_path / "lake", lines, block_rows=2)
    assert lines_of(tmp_path / "lake", "a") == lines[1:]
    blocks = snapshot(tmp_path / "lake", "a").blocks
    assert [block.activations for block in blocks] == [[(0, 1), (1, 2)], [(0, 3)]]
    assert [block.rows for block in blocks] == [2, 0]


def test_many_activations_do_not_gather_without_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_module, "BLOCK_BYTES", 1000)
    run(tmp_path / "lake", [schema("a")] + [activate("a", n) for n in range(200)])
    blocks = snapshot(tmp_path / "lake", "a").blocks
    assert len(blocks) > 5
    assert [v for block in blocks for _, v in block.activations] == list(range(200))


def test_metadata_and_metrics_are_in_the_log(tmp_path: Path) -> None:
    line = record("a", {"id": 1})
    run(tmp_path / "lake", [schema("a"), line], metadata={"run": {"id": 7}})
    [entry] = entries(tmp_path / "lake", "a")
    assert entry.metadata["run"] == {"id": 7}
    assert entry.metrics["input_bytes"] == len(line) + 1
    assert entry.operation == "sync"


def test_each_entry_keeps_the_state_that_goes_out_after_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    odd = b'{"type": "STATE", "value": {"at": 1.10, "far": 1e999, "at": "\\u00e9"}}'
    lines = [schema("a"), schema("b")]
    lines += [record("a", {"id": 1}), record("b", {"id": 1}), odd]
    lines += [record("a", {"id": 2}), state("x" * tap_state.MAX_BYTES), record("a", {"id": 3})]
    put_out = run(lake, lines, commit_bytes=1)
    assert len(put_out) == 2
    kept = '{"at": 1.10, "far": 1e999, "at": "\\u00e9"}'
    assert [entry.metadata for entry in entries(lake, "b")] == [{"tap_state": kept}]
    assert [entry.metadata for entry in entries(lake, "a")] == [
        {"tap_state": kept},
        {"tap_state_bytes": tap_state.MAX_BYTES + 2},
        {},  # no STATE goes out after the last commit
    ]
    with pytest.raises(UsageError, match="rename it"):
        run(lake, lines, metadata={"tap_state": "mine"})


# --- what goes wrong on the way -------------------------------------------------------------


def test_order_of_writing(tmp_path: Path, monkeypatch: Any) -> None:
    """Data files, then the log entry, then what is derived, then STATE."""
    steps: list[str] = []
    link, replace = LocalStore.link, LocalStore.replace

    def spy_link(self: Any, staging: int, source: str, key: str, **more: Any) -> None:
        link(self, staging, source, key, **more)
        steps.append(key)

    def spy_replace(self: Any, key: str, data: bytes, etag: str | None, **more: Any) -> str:
        steps.append(key)
        return replace(self, key, data, etag, **more)

    monkeypatch.setattr(LocalStore, "link", spy_link)
    monkeypatch.setattr(LocalStore, "replace", spy_replace)
    emit = "target_singerlake.target._emit"
    monkeypatch.setattr(emit, lambda value: steps.append("STATE"))
    streams = [f"s{n}" for n in range(5)]
    lines = [schema(s) for s in streams] + [record(s, {"id": n}) for n in range(4) for s in streams]
    run(tmp_path / "lake", [*lines, state(1)], block_rows=2, file_bytes=1)
    assert steps.count("STATE") == 1
    assert steps[-1] == "STATE"
    for stream in streams:
        own = [s for s in steps if f"/{stream}/" in s]
        kinds = [
            "lock"
            if s.endswith(".lock")
            else "data"
            if s.endswith(".gz")
            else "log"
            if "/transactions/" in s
            else "manifest"
            for s in own
        ]
        assert kinds == ["lock", "data", "data", "log", "manifest"]
        log = steps.index(own[3])
        assert log < next(n for n, s in enumerate(steps) if s.endswith("catalogue.json"))


class Broken:
    """Makes one kind of write fail."""

    def __init__(self, monkeypatch: Any, method: str, part: str, error: Exception) -> None:
        self.hits = 0
        original = getattr(LocalStore, method)

        def failing(store: Any, *args: Any, **more: Any) -> Any:
            if any(isinstance(arg, str) and part in arg for arg in args):
                self.hits += 1
                raise error
            return original(store, *args, **more)

        monkeypatch.setattr(LocalStore, method, failing)


ROWS = [schema("a"), schema("b"), record("a", {"id": 1}), record("b", {"id": 2}), state(1)]


def test_a_table_that_fails_keeps_the_state_in_and_the_others_committed(
    tmp_path: Path, monkeypatch: Any
) -> None:
    lake = tmp_path / "lake"
    monkeypatch.setattr(committing, "HERE", 1)
    with monkeypatch.context() as patch:
        broken = Broken(patch, "link", "/b/transactions/", StoreError("no more"))
        with pytest.raises(StoreError, match="no more"):
            run(lake, ROWS)
        assert broken.hits == 1
    assert run.states == []  # type: ignore[attr-defined]
    assert tables(lake) == {"a": 1}
    # What was published for the entry that failed is gone again, and nothing else is left.
    assert [p for p in data_files(lake) if "/b/" in str(p)] == []
    assert leftovers(lake) == []
    assert [s.stream for s in Lake.open(str(lake)).catalogue(TAP).streams] == ["a"]  # type: ignore[union-attr]
    assert run(lake, ROWS) == [1]
    assert tables(lake) == {"a": 2, "b": 1}


def test_no_table_is_begun_after_one_failed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(committing, "HERE", 1)
    Broken(monkeypatch, "link", "/a/transactions/", StoreError("no more"))
    with pytest.raises(StoreError):
        run(tmp_path / "lake", ROWS)
    assert tables(tmp_path / "lake") == {}


def test_an_unknown_outcome_deletes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    Broken(monkeypatch, "put_if_absent", "/a/transactions/", OutcomeUnknownError("no answer"))
    with pytest.raises(OutcomeUnknownError):
        run(tmp_path / "lake", [schema("a"), record("a", {"id": 1}), state(1)])
    assert run.states == []  # type: ignore[attr-defined]
    assert len(data_files(tmp_path / "lake")) == 1


@pytest.mark.parametrize("part", ["manifest.json", "catalogue.json", "raw/singerlake.json"])
def test_what_is_derived_may_fail(tmp_path: Path, monkeypatch: Any, part: str) -> None:
    lake = tmp_path / "lake"
    with monkeypatch.context() as patch:
        broken = Broken(patch, "put_if_absent", part, StoreError("no more"))
        assert run(lake, ROWS) == [1]
        assert broken.hits
    assert len(records_of(lake, "a")) == 1
    run(lake, ROWS)
    assert snapshot(lake, "a").number == 2
    assert any(lake.rglob(Path(part).name))  # made up for


def test_a_state_that_nobody_takes(tmp_path: Path, monkeypatch: Any) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Closed())
    target = TargetSingerlake(config={"lake": str(tmp_path / "lake"), "tap_id": TAP})
    with pytest.raises(StoreError, match="everything is committed, but STATE"):
        target.listen(io.BytesIO(text(ROWS)))  # type: ignore[arg-type]
    assert tables(tmp_path / "lake") == {"a": 1, "b": 1}


@pytest.mark.usefixtures("many_cases")
def test_a_lock_of_another_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, [schema("a"), record("a", {"id": 1})])
    store = Lake.open(str(lake)).store
    key = TableName(TAP, "a").lock(snapshot(lake, "a").schema_hash)
    other = b'{"writer-id": "other", "acquired": "x", "refreshed": "x"}'
    store.put_if_absent(key, other)
    for stale in (60, 1):  # the wait is too short to find out that it is dead, which is said
        said = f"held by other.*dead writer's lock .* more than {stale} s .*lock_stale_seconds"
        config = {"lock_wait_seconds": 0.3, "lock_stale_seconds": stale}
        with pytest.raises(LockTimeoutError, match=said):
            run(lake, [schema("a"), record("a", {"id": 2}), state(1)], **config)
    assert run.states == []  # type: ignore[attr-defined]
    assert store.get(key).data == other
    assert len(data_files(lake)) == 1
    # The stale time is the waiter's: a lock that stands still that long is taken over.
    states = run(lake, [schema("a"), record("a", {"id": 2}), state(1)], lock_stale_seconds=1)
    assert states == [1]
    assert [r["id"] for r in records_of(lake, "a")] == [1, 2]
    assert leftovers(lake) == []


@pytest.mark.usefixtures("many_cases")
def test_a_writer_that_died_before_its_first_commit(tmp_path: Path, monkeypatch: Any) -> None:
    """Its file and its lock lie there; the next run takes over, and its rows never show."""
    lake, dead = tmp_path / "lake", tmp_path / "dead"
    run(dead, [schema("a"), record("a", {"id": 1})])
    [path] = data_files(dead)
    folder = lake / path.parent.relative_to(dead)
    folder.mkdir(parents=True)
    path.rename(folder / path.name)
    held = '{"writer-id":"dead","acquired":"x","refreshed":"x"}'
    (folder / "singerlake.lock").write_text(held)
    lines = [schema("a"), record("a", {"id": 2})]
    with monkeypatch.context() as patch:  # not even when one that took over failed too
        Broken(patch, "link", "/a/transactions/", StoreError("no more"))
        with pytest.raises(StoreError, match="no more"):
            run(lake, lines, lock_stale_seconds=1)
    run(lake, lines, lock_stale_seconds=1)
    assert records_of(lake, "a") == [{"id": 2}]
    assert len(data_files(lake)) == 2
    assert leftovers(lake) == []


def test_a_lock_lost_before_the_commit_commits_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    publish = LocalStaged.publish

    def robbed(self: Any, key: str) -> None:
        publish(self, key)
        store = self._store
        [lock] = [item.key for item in store.list("raw/") if item.key.endswith(".lock")]
        store.replace(lock, b'{"writer-id":"other","acquired":"x","refreshed":"x"}', None)

    monkeypatch.setattr(LocalStaged, "publish", robbed)
    with pytest.raises(ConflictError, match="was lost"):
        run(tmp_path / "lake", [schema("a"), record("a", {"id": 1}), state(1)])
    assert tables(tmp_path / "lake") == {}
    assert data_files(tmp_path / "lake") == []


def test_runs_side_by_side_on_one_stream(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    writers, rows = 4, 30

    def one(writer: int) -> None:
        lines = [schema("a")]
        for n in range(rows):
            lines.append(record("a", {"id": writer * 1000 + n}))
            if n % 10 == 9:
                lines.append(state(n))
        config = {"lake": str(lake), "tap_id": TAP, "commit_minutes": 0}
        target = TargetSingerlake(config=config)
        target.listen(io.BytesIO(text(lines)))  # type: ignore[arg-type]

    threads = [threading.Thread(target=one, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert snapshot(lake, "a").number == writers * 3
    ids = [r["id"] for r in records_of(lake, "a")]
    assert sorted(ids) == sorted(w * 1000 + n for w in range(writers) for n in range(rows))
    for writer in range(writers):
        own = [n for n in ids if n // 1000 == writer]
        assert own == sorted(own)
    assert leftovers(lake) == []


def test_the_catalogue_names_all_streams_of_a_run(tmp_path: Path) -> None:
    streams = [f"s{n}" for n in range(20)]
    run(tmp_path / "lake", [schema(s, keys=["id"]) for s in streams])
    run(tmp_path / "lake", [schema("s3", OTHER), schema("zz")])
    catalogue = Lake.open(str(tmp_path / "lake")).catalogue(TAP)
    assert catalogue is not None
    assert [s.stream for s in catalogue.streams] == sorted([*streams, "zz"])
    [changed] = [s for s in catalogue.streams if s.stream == "s3"]
    assert changed.schema["properties"] == OTHER


def test_the_commits_of_a_run_share_their_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    work = run_module.Run._commit_stream

    def watched(self: run_module.Run, stream: Any) -> Any:
        threads.add(threading.current_thread())
        return work(self, stream)

    monkeypatch.setattr(run_module.Run, "_commit_stream", watched)
    streams = [f"s{n}" for n in range(committing.HERE)]
    lines = [schema(stream) for stream in streams]
    for n in range(3):
        lines += [record(stream, {"id": n}) for stream in streams] + [state(n)]
    assert run(tmp_path / "lake", lines, commit_minutes=0) == [0, 1, 2]
    assert 1 <= len(threads) <= committing.HERE
    assert not any(thread.is_alive() for thread in threads), "they end with the run"


@pytest.mark.parametrize(("size", "most"), [(10, committing.FAR), (5 << 20, committing.LARGE)])
def test_a_bucket_takes_more_commits_at_once_unless_they_are_large(size: int, most: int) -> None:
    class Far:
        uri = "s3://bucket"

    side_by_side = committing.SideBySide(Far())  # type: ignore[arg-type]
    now: list[int] = []
    seen: list[int] = []

    def one(number: int) -> int:
        now.append(number)
        seen.append(len(now))
        time.sleep(0.01)
        now.remove(number)
        return number

    futures = side_by_side.commit(range(100), one, lambda _: size)
    side_by_side.close()
    assert [future.result() for future in futures] == [*range(100)]
    assert most // 2 < max(seen) <= most


def test_a_clock_at_the_end_of_the_calendar_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one run have times of their own, later ones where the clock stands still."""
    last = (253_402_300_800 * 10**6 - 1) * 1000
    monkeypatch.setattr(time, "time_ns", lambda: last)
    lake = tmp_path / "lake"
    lines = [schema("a"), *(record("a", {"id": n}, time_extracted="x") for n in range(3)), state(1)]
    assert run(lake, lines, batch_size=1, block_rows=1) == [1]
    assert records_of(lake, "a") == [{"id": n} for n in range(3)]
