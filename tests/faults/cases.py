"""One case: a fresh lake, one operation with one fault, what the lake holds, and a rerun."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from pyspark import SparkContext
from pyspark.sql import SparkSession

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.ops.vacuum.leftovers import plan_leftovers, remove_leftovers
from singerlake.ops.vacuum.plan import DELETE
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.problems import Problem
from singerlake.ops.verify.whole_table import check_block, check_indexes
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests import recorder
from tests.faults import plain
from tests.faults.faulty_store import ALL, NOT_DURABLE, READS, Done, FaultyStore, Kind
from tests.faults.operations import (
    Operation,
    read_states,
    snapshot_of,
    vacuum_options,
)
from tests.faults.plain import Dump
from tests.frozen import vacuum_here

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


class Place(ABC):
    """Where lakes lie: a fresh one for each case, alike at its beginning."""

    @abstractmethod
    def prepare(self, operation: Operation) -> None:
        """Make the lake that the others are copies of."""

    @abstractmethod
    def fresh(self) -> Store:
        """A copy of it."""

    @abstractmethod
    def dump(self) -> Dump:
        """All that is in the copy."""

    @abstractmethod
    def watched(self, trace: list[Done]) -> AbstractContextManager[Store]:
        """The copy's store, which notes what is asked of it."""

    @abstractmethod
    def failing(self, case: Case) -> AbstractContextManager[Store]:
        """The copy's store, in which the case strikes."""


class Folder(Place):
    """Lakes on the local disk.

    Args:
        folder: For them.
    """

    def __init__(self, folder: Path) -> None:
        self._before = folder / "before"
        self._folder = folder
        self._count = 0

    @property
    def root(self) -> Path:
        """The copy; each has a name of its own, by which a journal tells them apart."""
        return self._folder / f"lake-{self._count}"

    def prepare(self, operation: Operation) -> None:
        operation.prepare(Lake(LocalStore(self._before)))

    def fresh(self) -> Store:
        shutil.rmtree(self.root, ignore_errors=True)
        self._count += 1
        shutil.copytree(self._before, self.root)
        return LocalStore(self.root)

    def dump(self) -> Dump:
        return plain.dump_folder(self.root)

    @contextmanager
    def watched(self, trace: list[Done]) -> Iterator[Store]:
        store = FaultyStore(LocalStore(self.root))
        yield store
        trace += store.trace

    @contextmanager
    def failing(self, case: Case) -> Iterator[Store]:
        store = FaultyStore(LocalStore(self.root), case.at, case.kind)
        try:
            yield store
        finally:
            store.finish()
            assert len(store.trace) >= case.at, "the fault never struck"


class Bench:
    """Runs cases of one operation.

    Args:
        operation: Which.
        place: Where its lakes lie.
        folder: For the STATEs that come out.
        once: Whether it is run once only before its cases, which then have to strike at what they
            are to strike at.
    """

    def __init__(
        self, operation: Operation, place: Place, folder: Path, *, once: bool = False
    ) -> None:
        self.operation = operation
        self._place = place
        self._acknowledged = folder / "acknowledged"
        place.prepare(operation)
        self._once = once
        # Twice, for a process asks some things once only, and the cases come after that.
        for _ in range(1 if once else 2):
            self.trace: list[Done] = []
            self._fresh()
            with place.watched(self.trace) as store:
                operation.run(store, self._acknowledged)
            self._check(done=True)

    def cases(self, kind: Kind) -> list[Case]:
        """Every operation on the store that can go wrong so."""
        methods = kind.methods
        if kind.kills and not self.operation.forks:
            return []
        if kind.kills and self.operation.spark:
            methods &= _SPARK_KILLS
        return [
            Case(kind, at, done)
            for at, done in enumerate(self.trace, start=1)
            if done.method in methods
        ]

    def run_all(self, kind: Kind, part: str = "") -> None:
        """Run the cases of a kind whose key has a part in it; there has to be one."""
        cases = [case for case in self.cases(kind) if part in case.done.key]
        assert cases
        for case in cases:
            self.run(case)

    def run(self, case: Case) -> None:
        """Run a case, and hold what must hold after it, and after a rerun."""
        store = self._fresh()
        try:
            done = self._kill(case) if case.kind.kills else self._strike(case)
            self._check(done=done)
            with (
                mock.patch("singerlake.log.locks.lock.POLL_SECONDS", 0.02),
                recorder.acting("the run again"),
            ):
                self.operation.run(store, self._acknowledged, again=True)
            self._check(done=True)
            if isinstance(self._place, Folder):
                with recorder.acting("the vacuum"):
                    self._sweep(store)
        except BaseException as error:
            error.add_note(f"in {self.operation.name}, {case}")
            raise

    def _sweep(self, store: Store) -> None:
        """Vacuum away what is left; nothing that nobody needs may stay."""
        lake = Lake(store)
        options = vacuum_options((DELETE,), again=True)
        for name in lake.tables():
            vacuum_here(lake.table(name), options)
        remove_leftovers(store, plan_leftovers(store, options))
        # A lease or a lock that could not be given up goes stale: nobody waits for it for long.
        stale = ("/leases/", ".lock")
        left = [
            key
            for key in plain.leftovers(self._place.dump())
            if not any(part in key for part in stale)
        ]
        assert left == [], f"no vacuum takes {left}"
        self._check(done=True)

    def _fresh(self) -> Store:
        self._acknowledged.unlink(missing_ok=True)
        self.operation.fresh()
        self._store = self._place.fresh()
        return self._store

    def _strike(self, case: Case) -> bool:
        """Run with the fault; whether the operation said that it succeeded."""
        try:
            with self._place.failing(case) as store, self._struck(case, store):
                self.operation.run(store, self._acknowledged)
        except SingerlakeError:
            assert not case.kind.harmless, "it should have got over this by itself"
            return False
        except KeyboardInterrupt:
            assert case.kind.interrupts
            return False
        committed = "/transactions/" in case.done.key
        assert not (committed and case.kind == NOT_DURABLE), "what is not durable was acknowledged"
        return True

    @contextmanager
    def _struck(self, case: Case, store: Store) -> Iterator[None]:
        """Hold that the run came to what it came to before, of which names may be others."""
        try:
            yield
        finally:
            if self._once:
                assert isinstance(store, FaultyStore)
                done = store.trace[case.at - 1]
                assert done.method == case.done.method, done
                assert ("/transactions/" in done.key) == ("/transactions/" in case.done.key), done

    def _kill(self, case: Case) -> bool:
        assert isinstance(self._place, Folder)
        ended = _in_a_process(self.operation, self._place.root, self._acknowledged, case)
        assert ended == -signal.SIGKILL, f"it ended by itself with {ended}"
        return False

    def _check(self, *, done: bool) -> None:
        dump = self._place.dump()
        self.operation.check(dump, read_states(self._acknowledged), done=done)
        lake = Lake(self._store)
        logs = plain.tables(dump) if done or not self.operation.loses_log else {}
        for name in lake.tables():
            head = snapshot_of(lake, name)
            if done or not self.operation.loses_log:
                table = logs.get(str(name))
                assert head == (len(table.log) if table else 0), name
                assert problems(lake, str(name)) == []
        if done or not self.operation.loses_log:
            plain.leftovers(dump)


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A temporary folder, in memory where the system has such."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else None) as folder:
        yield Path(folder)


def problems(lake: Lake, name: str) -> list[Problem]:
    """What ``singerlake verify`` finds, without Spark."""
    table = lake.find(name)[0]
    if not snapshot_of(lake, table.name):
        return []
    found = check_log(lake.store, table.name)
    head = found.snapshot
    if head.dropped_at:  # what comes back is there, too
        head = replace(head, blocks=head.restorable or [])
    missing, readable = check_files(head, lake.store.list(table.name.folder))
    indexes, _, _ = check_indexes(lake.store, found.snapshot)
    blocks = [p for b in readable for p in check_block(lake.store, table.name, b)]
    return [*found.problems, *missing, *indexes, *blocks]


def _in_a_process(operation: Operation, root: Path, acknowledged: Path, case: Case) -> int:
    """Run in a process of its own, which kills itself at the case's place.

    Returns:
        How it ended: minus the signal's number.
    """
    if operation.spark:
        return in_a_fork(lambda: _run_until_killed(operation, root, acknowledged, case))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.cases", "target_singerlake.target"])
    process = context.Process(target=_run_until_killed, args=(operation, root, acknowledged, case))
    process.start()
    process.join(120)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def in_a_fork(work: Callable[[], object]) -> int:
    """Do it in a child, as a driver of the Spark that runs: a JVM of its own would take seconds.

    The parent waits, so that nobody else talks to that JVM meanwhile.

    Returns:
        How it ended: minus the signal's number.
    """
    child = os.fork()
    if child == 0:
        try:
            parents = _connect_anew()
            assert parents, "what the parent connected by is neither used nor closed"
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _connect_anew() -> object:
    """Have a child talk to the JVM by connections of its own.

    What it was told and had not read yet would else be the answer to its parent's next question.

    Returns:
        Those of its parent.
    """
    session = SparkSession.getActiveSession()
    context = SparkContext._active_spark_context
    assert session is not None and context is not None
    client = context._gateway._gateway_client  # type: ignore[union-attr]
    parents = (client.thread_connection, client.deque)
    client.thread_connection, client.deque = threading.local(), deque()
    jvm = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)  # type: ignore[union-attr]
    return parents


def _run_until_killed(operation: Operation, root: Path, acknowledged: Path, case: Case) -> None:
    with recorder.asked_for():
        operation.run(FaultyStore(LocalStore(root), case.at, case.kind), acknowledged)
