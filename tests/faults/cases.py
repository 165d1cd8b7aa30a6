"""One case: a fresh lake, one operation with one fault, what the lake holds, and a rerun."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.maintenance.verify import Problem, check_files, check_indexes, check_log
from singerlake.maintenance.verify_block import check_block
from singerlake.storage.local import LocalStore
from tests.faults import plain
from tests.faults.faulty_store import ALL, INTERRUPT, KINDS, READS, Done, FaultyStore, Kind
from tests.faults.operations import Operation, read_states, snapshot_of

# Spark's children start a JVM each, and a kill before a read leaves what a kill after the
# write before it leaves.
_SPARK_KILLS = ALL - READS - {"stage", "discard"}


@dataclass(frozen=True)
class Case:
    """The k-th operation on the store goes wrong so."""

    kind: Kind
    at: int
    done: Done

    def __str__(self) -> str:
        return f"{self.kind.name} at {self.at}: {self.done.method} {self.done.key}"


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A temporary folder, in memory where the system has such."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else None) as folder:
        yield Path(folder)


class Bench:
    """Runs cases of one operation.

    Args:
        operation: Which.
        folder: For its lakes.
    """

    def __init__(self, operation: Operation, folder: Path) -> None:
        self.operation = operation
        self._folder = folder
        self._before = folder / "before"
        operation.prepare(Lake(LocalStore(self._before)))
        self.trace = self._dry_run()

    def cases(self, kind: Kind) -> list[Case]:
        """Every operation on the store that can go wrong so."""
        methods = kind.methods
        if kind.kills and self.operation.spark:
            methods &= _SPARK_KILLS
        return [
            Case(kind, at, done)
            for at, done in enumerate(self.trace, start=1)
            if done.method in methods
        ]

    def all_cases(self) -> list[Case]:
        """Of every kind."""
        return [case for kind in KINDS for case in self.cases(kind)]

    def _dry_run(self) -> list[Done]:
        root, acknowledged = self._fresh()
        store = FaultyStore(LocalStore(root))
        self.operation.run(store, acknowledged)
        self._check(root, acknowledged, done=True)
        return store.trace

    def run(self, case: Case) -> int:
        """Run a case, and everything that must hold after it.

        Returns:
            How many leftovers there were before the rerun.
        """
        root, acknowledged = self._fresh()
        try:
            done = self._strike(case, root, acknowledged)
            left = self._check(root, acknowledged, done=done)
            with mock.patch("singerlake.transactions.lock.POLL_SECONDS", 0.02):
                self.operation.run(LocalStore(root), acknowledged, again=True)
            self._check(root, acknowledged, done=True)
        except BaseException as error:
            error.add_note(f"in {self.operation.name}, {case}")
            raise
        return left

    def _fresh(self) -> tuple[Path, Path]:
        root, acknowledged = self._folder / "lake", self._folder / "acknowledged"
        shutil.rmtree(root, ignore_errors=True)
        acknowledged.unlink(missing_ok=True)
        shutil.copytree(self._before, root)
        return root, acknowledged

    def _strike(self, case: Case, root: Path, acknowledged: Path) -> bool:
        """Run with the fault; whether the operation said that it succeeded."""
        if case.kind.kills:
            ended = _in_a_process(self.operation, root, acknowledged, case)
            assert ended == -signal.SIGKILL, f"it ended by itself with {ended}"
            return False
        store = FaultyStore(LocalStore(root), case.at, case.kind)
        try:
            self.operation.run(store, acknowledged)
        except SingerlakeError:
            return False
        except KeyboardInterrupt:
            assert case.kind is INTERRUPT
            return False
        finally:
            store.finish()
            assert len(store.trace) >= case.at, "the fault never struck"
        return True

    def _check(self, root: Path, acknowledged: Path, *, done: bool) -> int:
        dump = plain.dump_folder(root)
        self.operation.check(dump, read_states(acknowledged), done=done)
        lake = Lake(LocalStore(root))
        logs = plain.tables(dump)
        for name in lake.tables():
            table = logs.get(str(name))
            head = snapshot_of(lake, name)
            if self.operation.name != "rebuild":
                assert head == (len(table.log) if table else 0), name
                assert problems(lake, str(name)) == []
            elif done:
                assert problems(lake, str(name)) == []
        return len(plain.leftovers(dump)) if logs else 0


def problems(lake: Lake, name: str) -> list[Problem]:
    """What ``singerlake verify`` finds, without Spark."""
    table = lake.find(name)[0]
    if not snapshot_of(lake, table.name):
        return []
    found = check_log(lake.store, table.name)
    missing, readable = check_files(lake.store, found.snapshot)
    indexes, _ = check_indexes(lake.store, found.snapshot)
    blocks = [p for b in readable for p in check_block(lake.store, table.name, b)]
    return [*found.problems, *missing, *indexes, *blocks]


def _in_a_process(operation: Operation, root: Path, acknowledged: Path, case: Case) -> int | None:
    """Run in a process of its own, which kills itself at the case's place.

    Returns:
        How it ended: minus the signal's number.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.cases", "target_singerlake.target"])
    process = context.Process(target=_run_until_killed, args=(operation, root, acknowledged, case))
    process.start()
    process.join(120)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def _run_until_killed(operation: Operation, root: Path, acknowledged: Path, case: Case) -> None:
    operation.run(FaultyStore(LocalStore(root), case.at, case.kind), acknowledged)
