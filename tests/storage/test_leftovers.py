"""What dead writers staged goes; what a writer at work has staged stays, whatever its age."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import UsageError
from singerlake.ops.vacuum.leftovers import plan_leftovers, remove_leftovers
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.local import liveness
from singerlake.storage.local.store import LocalStore
from singerlake.storage.unfinished import Leftover

NOTHING = VacuumOptions(retain_seconds=0, guard=False)
LATER = 1e12
STAGING = """
import sys
from pathlib import Path
from singerlake.storage.local.store import LocalStore
staged = LocalStore(Path(sys.argv[1])).stage()
staged.write(b"0123456789")
print("staged", flush=True)
sys.stdin.read()
staged.discard()
print("done", flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


@contextmanager
def writer(store: LocalStore) -> Iterator[subprocess.Popen[str]]:
    """Another process that has staged ten bytes."""
    process = subprocess.Popen(
        [sys.executable, "-c", STAGING, str(store.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "staged\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def staged_files(store: LocalStore) -> list[str]:
    return sorted(p.name for p in (store.root / ".staging").iterdir() if p.name != "replace.lock")


@pytest.mark.usefixtures("processes")
def test_a_writer_at_work_keeps_its_files_and_a_killed_one_s_go(store: LocalStore) -> None:
    with writer(store) as process:
        assert len(staged_files(store)) == 2
        assert list(store.leftovers()) == []
        process.send_signal(signal.SIGSTOP)  # held up for however long
        assert list(store.leftovers()) == []
        assert plan_leftovers(store, NOTHING, now=LATER).going == []
        process.kill()
        process.wait()
        plan = plan_leftovers(store, NOTHING, now=LATER)
        assert sorted(one.bytes for one in plan.going) == [0, 10]
        assert all(one.certain for one in plan.going)
        assert len(remove_leftovers(store, plan)) == 2
        assert staged_files(store) == []
        assert remove_leftovers(store, plan), "gone already is no error"


@pytest.mark.usefixtures("processes")
def test_one_that_ends_well_leaves_nothing(store: LocalStore) -> None:
    with writer(store) as process:
        out, _ = process.communicate("")
        assert out == "done\n"
        assert staged_files(store) == []


def test_this_process_s_own_are_safe_too(store: LocalStore) -> None:
    first, second = store.stage(), store.stage()
    other = LocalStore(store.root)  # as a vacuum in the same process would open it
    assert list(other.leftovers()) == []
    first.discard()
    assert list(other.leftovers()) == []
    second.discard()
    assert staged_files(store) == []
    third = store.stage()
    assert list(other.leftovers()) == [], "its liveness marker is there again"
    third.discard()
    third.discard()
    assert staged_files(store) == []


def test_a_writer_that_is_about_to_lock_its_marker_is_no_dead_one(store: LocalStore) -> None:
    """Its marker is there, and not locked yet: what died so long ago has no rights left."""
    marker = store.root / ".staging" / f"{'0' * 32}.alive"
    store.stage().discard()
    marker.touch()
    assert list(store.leftovers()) == []
    long_ago = time.time() - 120
    os.utime(marker, (long_ago, long_ago))
    assert [one.name for one in store.leftovers()] == [f".staging/{marker.name}"]


def test_a_writer_that_begins_again_meanwhile_keeps_its_marker(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, asked = store.stage(), liveness._is_alive
    meanwhile: list[Any] = []

    def is_alive(*args: Any) -> bool:
        first.discard()
        answer = asked(*args)
        meanwhile.append(store.stage())
        return answer

    monkeypatch.setattr(liveness, "_is_alive", is_alive)
    assert list(LocalStore(store.root).leftovers()) == []
    assert len(staged_files(store)) == 2, "a file and its marker"
    meanwhile[0].discard()


@pytest.mark.usefixtures("processes")
def test_a_forked_writer_lives_on_when_its_parent_ends(store: LocalStore) -> None:
    mine = store.stage()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            theirs = store.stage()
            theirs.write(b"x")
        finally:
            os._exit(0)  # dies with it staged
    os.waitpid(child, 0)
    found = list(store.leftovers())
    assert sorted(one.bytes for one in found) == [0, 1], "the child's, not its parent's"
    for one in found:
        store.remove_leftover(one)
    mine.write(b"still mine")
    mine.publish("raw/x")
    assert store.get("raw/x").data == b"still mine"
    mine.discard()


@pytest.mark.usefixtures("processes")
def test_the_retention_holds_for_them(store: LocalStore) -> None:
    with writer(store) as process:
        process.kill()
        process.wait()
        week = VacuumOptions()
        plan = plan_leftovers(store, week)
        assert plan.going == []
        assert {item.reason for item in plan.kept} == {"staged, but younger than the retention"}
        assert len(plan_leftovers(store, week, now=LATER).going) == 2
    with pytest.raises(UsageError, match="--no-retention-guard"):
        plan_leftovers(store, VacuumOptions(retain_seconds=1))


def test_where_death_is_not_certain_a_day_must_pass(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = Leftover("upload", 5, 1000.0, certain=False)
    monkeypatch.setattr(store, "leftovers", lambda: iter([upload]))
    plan = plan_leftovers(store, NOTHING, now=1000.0 + 86_399)
    assert [item.reason for item in plan.kept] == ["staged, but its writer may be running"]
    assert plan_leftovers(store, NOTHING, now=1000.0 + 86_400).going == [upload]


def test_other_things_in_the_lake_are_not_looked_at(store: LocalStore) -> None:
    store.put_if_absent("raw/tap/s/x", b"data")
    store.replace("raw/tap/s/x", b"more", None)  # leaves replace.lock
    assert list(store.leftovers()) == []
    assert list(LocalStore(store.root / "none").leftovers()) == []
