"""Real runs are behaviours of the model; the same with two steps exchanged are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from model.traces import Step, Verdict, steps, verdicts
from singerlake.errors import ConflictError, SingerlakeError
from singerlake.lake import Lake, Table
from singerlake.log.lease import ReaderLease
from singerlake.log.log import read_snapshot
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import commit_combine, write_group
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.plan import COMBINE, DELETE, VacuumOptions, plan_vacuum
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import (
    INTERRUPT,
    LATE,
    LOST_REPLY,
    LOST_REQUEST,
    NOT_DURABLE,
    TAKEN,
    WRITES,
    FaultyStore,
)
from tests.faults.operations import OPERATIONS
from tests.files.photos import NAME, clean, forget, listed, sync
from tests.files.test_history_of_files import Held
from tests.log.broken import TABLE, BrokenStore, staged_rows
from tests.ops.vacuum.plain_table import drop, freeze
from tests.recorder import acting, recording

AT_ONCE = VacuumOptions(
    retain_seconds=0,
    guard=False,
    lease_wait_seconds=0,
    lock_wait_seconds=0,
    parts=(COMBINE, DELETE),
)


def write(store: Store, *ids: int, as_: str = "writer") -> None:
    with acting(as_):
        TableWriter(store, TABLE).commit(staged_rows(store, *ids))


def head(store: Store) -> TableState:
    found = read_snapshot(store, TABLE)
    assert found is not None
    return found


def run_vacuum(
    store: Store, name: str = "vacuum", between: Callable[[], object] = lambda: None
) -> None:
    """As the job does it without Spark; ``between`` comes before the leases are listed."""
    with acting(name):
        options = AT_ONCE
        plan = plan_vacuum(store, head(store), options)
        after, found = vacuum.announce(store, plan, options, name)
        if plan.combine:
            written = [(group, write_group(store, TABLE, group)) for group in plan.combine]
            after = commit_combine(store, after, written, writer_id=name)
            found = vacuum.with_newly_dropped(store, after, found, options)
        between()
        deleted, _ = vacuum.delete_garbage(store, after, found, options, check=lambda: None)
        vacuum.finish(store, after, deleted, found.vanished, writer_id=name, metrics={})


def a_day_in_the_life(store: LocalStore) -> None:
    """Syncs, a version, a leftover, readers before, during and after a vacuum."""
    for n in range(3):
        write(store, n)
    freeze(Lake(store).table(TABLE), 2)
    with acting("dead"):
        staged_rows(store, 9).publish()
    early = ReaderLease(store, head(store)).acquire()
    run_vacuum(store)
    write(store, 4)
    late = ReaderLease(store, head(store)).acquire()
    early.release()
    run_vacuum(store, "second", lambda: write(store, 5, as_="another"))
    late.release()
    run_vacuum(store, "third")
    write(store, 6)
    run_vacuum(store, "last")  # what it drops goes at once


def who_wakes_too_late(store: LocalStore) -> None:
    """A vacuum took a writer's file for a leftover while the writer slept before its commit."""
    write(store, 1)
    slow = BrokenStore(store)
    met: list[str] = []

    def hook(method: str, key: str) -> None:
        if method == "put" and "/transactions/" in key and not met:
            met.append(key)
            store.delete(TABLE.lock(head(store).schema_hash))
            run_vacuum(store)

    slow.before = hook
    with pytest.raises(ConflictError):
        write(slow, 2, as_="slow")
    write(store, 3)


def dropped_history(store: LocalStore) -> None:
    for n in range(4):
        write(store, n, n)
    table = Lake(store).table(TABLE)
    with acting("vacuum"):
        plan = plan_vacuum(store, head(store), AT_ONCE)
        vacuum.announce(store, plan, AT_ONCE, "test")
        before = head(store)
        history = plan_drop_history(before, float("inf"))
        assert history is not None
        drop(table, before, history)
    run_vacuum(store, "second")


def gone_and_back(store: LocalStore) -> None:
    """Dropped and brought back beside a vacuum, dropped for good, and begun anew."""
    write(store, 1)
    reader = ReaderLease(store, head(store)).acquire()
    drop_table(store, head(store), AlterOptions())
    undrop_table(store, head(store), AlterOptions())
    run_vacuum(store)
    write(store, 2)
    drop_table(store, head(store), AlterOptions())
    run_vacuum(store, "second", reader.release)
    write(store, 3, as_="another")
    run_vacuum(store, "third")


def photos(store: LocalStore) -> None:
    """Files that rows name: stored once, named again, announced before a commit, and gone."""
    with acting("writer"):
        sync(store.root, {1: "data:,a", 2: "data:,b"})
        sync(store.root, {1: "data:,b"})
    table = Lake(store).table(NAME)
    with acting("quick"):
        quick = Held(table, [(3, "a")])
    drop_old(table)
    with acting("quick"):
        assert quick.commit()  # names again what no list has named for a while
        sync(store.root, {3: "data:,b"})
    with acting("slow"):
        slow = Held(table, [(4, "a")])
    reader = ReaderLease(store, table.snapshot()).acquire()
    drop_old(table)
    reader.release()
    with acting("vacuum"):
        clean(table)
    with acting("second"):
        clean(table)
    with acting("slow"):
        assert not slow.commit()
    drop_table(store, table.snapshot(), AlterOptions())
    undrop_table(store, table.snapshot(dropped=True), AlterOptions())
    assert len(listed(table)) == 1
    with acting("third"):
        clean(table)


def drop_old(table: Table) -> None:
    """All history, after the announcement that comes first."""
    with acting("test"):
        head = table.snapshot()
        vacuum.announce(table.store, plan_vacuum(table.store, head, AT_ONCE), AT_ONCE, "test")
        forget(table)


def faults(store: LocalStore) -> None:
    """Each write of a commit goes wrong once in each way whose outcome is in doubt."""
    write(store, 0)
    counted = FaultyStore(store)
    write(counted, 1)
    places = [n for n, done in enumerate(counted.trace, 1) if done.method in WRITES]
    for kind in (LOST_REPLY, LOST_REQUEST, LATE, TAKEN, INTERRUPT, NOT_DURABLE):
        for at in places:
            broken = FaultyStore(store, at, kind)
            with suppress(SingerlakeError, KeyboardInterrupt):
                write(broken, at, as_=f"{kind.name} {at}")
            broken.finish()
            for item in store.list(TABLE.folder):
                if item.key.endswith(".lock"):
                    store.delete(item.key)  # as if it had gone stale
    run_vacuum(store)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Step]]:
    found = {}
    scenarios = (a_day_in_the_life, who_wakes_too_late, dropped_history, gone_and_back)
    for scenario in (*scenarios, photos, faults):
        folder = tmp_path_factory.mktemp(scenario.__name__)
        with recording(folder / "journal") as journal:
            scenario(LocalStore(folder / "lake"))
        with journal.open() as file:
            ((_, found[scenario.__name__]),) = steps(file).items()
    return found


def exchanged(trace: list[Step], first: dict[str, object], second: dict[str, object]) -> list[Step]:
    """The last step that is like the first, and the next that is like the second, exchanged.

    Of several in a row that are like the first it is the first of them.
    """

    def like(step: Step, wanted: dict[str, object]) -> bool:
        return wanted.items() <= {n: v for n, v in step.items() if not isinstance(v, set)}.items()

    pairs = [
        (i, j)
        for i, step in enumerate(trace)
        if like(step, first) and not (i and like(trace[i - 1], first))
        for j in [next((j for j in range(i + 1, len(trace)) if like(trace[j], second)), 0)]
        if j
    ]
    i, j = pairs[-1]
    out = list(trace)
    out[i], out[j] = out[j], out[i]
    return out


SWAPS = {
    "announced after it was deleted": ({"op": "append", "kind": "start"}, {"op": "delete"}),
    "leases listed after the deletion": ({"op": "list"}, {"op": "delete"}),
    "leases listed before the move": ({"op": "append", "kind": "move"}, {"op": "list"}),
    "committed before it was published": ({"op": "publish"}, {"op": "append", "kind": "sync"}),
    "two entries": ({"op": "append"}, {"op": "append"}),
    "the log read before the lease": ({"op": "lease"}, {"op": "reread"}),
}


FILES_SWAPS = {
    "a file stored after its row": (
        {"op": "publish", "content": True},
        {"op": "append", "kind": "sync"},
    ),
    "a file announced after it was deleted": (
        {"op": "append", "kind": "start"},
        {"op": "delete", "content": True},
    ),
    "a file deleted while a list names it": (
        {"op": "append", "kind": "move"},
        {"op": "delete", "content": True},
    ),
}


@pytest.mark.usefixtures("long_runs")
def test_runs_and_runs_with_two_steps_exchanged(recorded: dict[str, list[Step]]) -> None:
    day = recorded["a_day_in_the_life"]
    wrong = {name: exchanged(day, *pair) for name, pair in SWAPS.items()}
    files = recorded["photos"]
    wrong |= {name: exchanged(files, *pair) for name, pair in FILES_SWAPS.items()}
    said = verdicts([*recorded.values(), *wrong.values()])
    assert said[: len(recorded)] == [Verdict(True, len(trace) + 1) for trace in recorded.values()]
    refused = [verdict.accepted for verdict in said[len(recorded) :]]
    assert dict(zip(wrong, refused, strict=True)) == dict.fromkeys(wrong, False)


STRUCK = (LOST_REPLY, LATE, INTERRUPT)


@pytest.mark.usefixtures("long_runs")
def test_operations_of_which_one_entry_goes_wrong(tmp_path: Path) -> None:
    """A few of the cases of ``tests/faults``; with SINGERLAKE_JOURNAL all of them are checked."""
    operations = [operation for operation in OPERATIONS if not operation.spark]
    with fast_folder() as folder, recording(tmp_path / "journal") as journal:
        for operation in operations:
            bench = Bench(operation(), Folder(folder / operation.name), folder)
            for kind in STRUCK:
                for case in bench.cases(kind):
                    if "/transactions/" in case.done.key:
                        bench.run(case)
    with journal.open() as file:
        traces = steps(file)
    seen = {step["kind"] for trace in traces.values() for step in trace if step["op"] == "append"}
    assert {"sync", "start", "done", "drop", "undrop"} <= seen
    assert {
        name: said
        for name, said in zip(traces, verdicts([*traces.values()]), strict=True)
        if not said.accepted
    } == {}


def test_an_entry_that_a_killed_writer_left_to_another(tmp_path: Path) -> None:
    """What was wanted, and what happened, are two things: another created that entry."""
    with recording(tmp_path / "journal") as journal:
        store = LocalStore(tmp_path / "lake")
        write(store, 0)
        write(store, 1, as_="killed")
        write(store, 2, as_="other")
    lines = journal.read_text().splitlines(keepends=True)
    put = [n for n, line in enumerate(lines) if '"put"' in line and "/transactions/" in line]
    first = [next(n for n in put if f"00000{number}.json" in lines[n]) for number in (2, 3)]
    second, third = first[0], json.loads(lines[first[1]])
    wanted = {**json.loads(lines[second]), "n": "killed", "intent": True}
    wanted["data"] = third["data"].replace('"number": 3', '"number": 2')
    killed = [*lines[:second], json.dumps(wanted) + "\n", *lines[second:]]
    assert steps(killed) == steps(lines)
