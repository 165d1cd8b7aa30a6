"""Writers that are processes of their own: many at once, and one that was stopped meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.format import names
from singerlake.log.capabilities import open_for_writing
from singerlake.log.locks import lock
from singerlake.log.locks.lock import WriterLock
from singerlake.log.log import entries
from singerlake.log.writer import TableWriter, WriteOptions
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.log.broken import HASH, TABLE, ids_in, staged_rows, until_done
from tests.log.non_conditional import NonConditionalStore
from tests.log.worker import Worker, run_together

pytestmark = pytest.mark.usefixtures("processes")

STALE = 1.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.05)


def data_files(store: Store) -> set[str]:
    return {item.key for item in store.list(TABLE.folder) if item.key.endswith(names.SUFFIX)}


def named_files(store: Store) -> set[str]:
    return {TABLE.data(block.file) for entry in entries(store, TABLE) for block in entry.blocks}


def test_many_processes_on_one_table(tmp_path: Path) -> None:
    count, commits = 4, 6
    settings = {"kind": "local", "uri": str(tmp_path / "lake"), "commits": commits}
    # Half of them under another schema, and so under another lock.
    workers = [Worker(**settings, first=100 * n, column=f"x{n % 2}") for n in range(count)]
    acknowledged = run_together(workers)
    store = LocalStore(tmp_path / "lake")
    found = check_log(store, TABLE)
    assert found.problems == []
    assert check_files(found.snapshot, store.list(TABLE.folder))[0] == []
    assert [t.number for t in found.snapshot.transactions] == [*range(1, count * commits + 1)]
    wanted = sorted(100 * n + m for n in range(count) for m in range(commits))
    assert sorted(acknowledged) == sorted(ids_in(store)) == wanted
    assert data_files(store) == named_files(store)


@pytest.mark.parametrize("kind", ["local", "non-conditional"])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_process_that_sleeps_through_the_loss_of_its_lock(
    tmp_path: Path, kind: str, is_done: bool
) -> None:
    """Stopped between publishing and committing for longer than the stale time."""
    root = tmp_path / "lake"
    settings = {"kind": kind, "uri": str(root), "settle": 0.2, "stale": STALE}
    sleeper = Worker(**settings, first=7, commits=1, stop=True)
    sleeper.go()
    assert sleeper.says() == "published"
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    store: Store = LocalStore(root) if kind == "local" else NonConditionalStore(root, 0.2)
    open_for_writing(store)
    left = data_files(store)
    assert len(left) == 1
    if is_done:
        writer = TableWriter(store, TABLE, WriteOptions(lock_stale_seconds=STALE))
        until_done(lambda: writer.commit(staged_rows(store, 1)))
        wake(sleeper)
    else:
        with WriterLock(store, TABLE.lock(HASH), "another", stale_seconds=STALE):
            wake(sleeper)
            assert b"another" in store.get(TABLE.lock(HASH)).data
    out, err, code = sleeper.end()
    assert (out, code) == ([], 4), err
    assert "ConflictError" in err
    assert "nothing was committed; run it again" in err
    assert "Traceback" not in err
    assert ids_in(store) == ([1] if is_done else [])
    assert data_files(store) == named_files(store)
    assert not left & data_files(store)
    assert not [item.key for item in store.list(names.RAW) if item.key.endswith(".lock")]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wake(sleeper: Worker) -> None:
    sleeper.go()
    os.kill(sleeper.process.pid, signal.SIGCONT)
    assert sleeper.process.wait(60) is not None


def test_a_process_that_sleeps_and_loses_nothing_goes_on(tmp_path: Path) -> None:
    """Refreshed again in the background, the lock is as good as before."""
    settings = {"kind": "local", "uri": str(tmp_path / "lake"), "stale": STALE}
    sleeper = Worker(**settings, first=7, commits=1, stop=True)
    sleeper.go()
    assert sleeper.says() == "published"
    store = LocalStore(tmp_path / "lake")
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    before = store.get(TABLE.lock(HASH)).etag
    os.kill(sleeper.process.pid, signal.SIGCONT)
    until(lambda: store.get(TABLE.lock(HASH)).etag != before)
    sleeper.go()
    assert sleeper.end()[::2] == (["7"], 0)
    assert ids_in(store) == [7]
