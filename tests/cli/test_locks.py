"""`singerlake locks` and `singerlake unlock`: what they show, and what a broken lock means."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from singerlake.errors import ConflictError
from singerlake.format import names
from singerlake.lake import Lake
from singerlake.log.lease import ReaderLease
from singerlake.log.locks.holders import break_lock, locks
from singerlake.log.locks.lock import WriterLock
from singerlake.log.log import read_snapshot
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.log.broken import HASH, TABLE, BrokenStore, ids_in, staged_rows

ODD = "tap-y.größe/%"


@pytest.fixture
def held(lake: Lake) -> Lake:
    """Two tables, and a lock of every kind."""
    lake.table(TABLE).writer().commit(staged_rows(lake.store, 1))
    commit_rows(lake, ODD, {"id": {}}, [], [{"id": 1}])
    for n, key in enumerate(keys()):
        refreshed = f"2026-01-01T00:00:0{n}.000000Z"
        name = "reader-id" if "leases" in key else "writer-id"
        content = {name: f"host-{n}", "acquired": "2026-01-01T00:00:00Z", "refreshed": refreshed}
        lake.store.put_if_absent(key, json.dumps(content).encode())
    return lake


def keys() -> list[str]:
    return [
        TABLE.lock(HASH),
        TABLE.table_lock,
        TABLE.vacuum_lock,
        TABLE.lease("host-3-x"),
        names.LAKE_LOCK,
    ]


def left(lake: Lake) -> set[str]:
    return {lock.key for lock in locks(lake.store)}


def test_every_lock_is_shown(held: Lake) -> None:
    found = {lock["key"]: lock for lock in run_json(held, "locks")}
    assert set(found) == set(keys())
    table = str(TABLE)
    said = [(found[k]["table"], found[k]["lock"], found[k]["schema"]) for k in keys()]
    assert said == [
        (table, "write", HASH),
        (table, "commit", None),
        (table, "vacuum", None),
        (table, "read", None),
        (None, "lake", None),
    ]
    assert [found[k]["holder"] for k in keys()] == [f"host-{n}" for n in range(5)]
    assert found[TABLE.lock(HASH)]["age_seconds"] > 0
    text = run(held, "locks").stdout
    assert all(f"host-{n}" in text for n in range(5))
    assert "2026-01-01 00:00:02" in text


def test_one_tables_locks(held: Lake) -> None:
    assert {lock["key"] for lock in run_json(held, "locks", str(TABLE))} == set(keys()[:4])
    assert run_json(held, "locks", ODD) == []
    assert "there are no locks" in run(held, "locks", ODD).stdout
    assert run(held, "locks", "tap-y.none").exit_code == 3


def test_real_locks_and_leases_are_shown(lake: Lake) -> None:
    lake.table(TABLE).writer().commit(staged_rows(lake.store, 1))
    snapshot = lake.table(TABLE).snapshot()
    with WriterLock(lake.store, TABLE.lock(HASH), "w1"), ReaderLease(lake.store, snapshot):
        found = run_json(lake, "locks")
    assert [(lock["lock"], bool(lock["holder"])) for lock in found] == [
        ("write", True),
        ("read", True),
    ]
    assert all(lock["age_seconds"] < 60 for lock in found)
    assert run_json(lake, "locks") == []


@pytest.mark.parametrize("data", [b"", b"junk", b"[1]", b'{"writer-id": 5}', b'{"x":1}', b"\xff"])
def test_a_damaged_lock_is_shown_and_can_be_broken(lake: Lake, data: bytes) -> None:
    lake.table(TABLE).writer().commit(staged_rows(lake.store, 1))
    lake.store.put_if_absent(TABLE.lock(HASH), data)
    (lock,) = run_json(lake, "locks")
    assert (lock["schema"], lock["holder"], lock["age_seconds"]) == (HASH, None, None)
    result = run(lake, "unlock", str(TABLE), "--yes")
    assert (result.exit_code, left(lake)) == (0, set())


def test_a_store_that_ignores_conditions_is_named(held: Lake) -> None:
    assert "ignores" not in run(held, "locks").stdout
    file = json.loads(held.store.get(names.LAKE).data)
    held.store.replace(names.LAKE, json.dumps({**file, "conditional_writes": False}).encode(), None)
    assert "ignores conditional writes" in run(held, "locks").stdout


def test_unlock_asks_and_says_whose_it_was(held: Lake) -> None:
    no = run(held, "unlock", str(TABLE), "--schema", HASH, input="n\n")
    assert no.exit_code == 1
    assert left(held) == set(keys())
    assert f"write lock of schema {HASH} on {TABLE}: held by host-0 since 2026-01-01" in no.stderr
    yes = run(held, "unlock", str(TABLE), "--schema", HASH, input="y\n")
    assert yes.exit_code == 0
    assert "broke the write lock" in yes.stdout
    assert left(held) == set(keys()[1:])


def test_unlock_leaves_readers_and_the_lake_alone(held: Lake) -> None:
    broken = run_json(held, "unlock", str(TABLE), "--yes")
    assert [lock["holder"] for lock in broken] == ["host-0", "host-1", "host-2"]
    assert left(held) == set(keys()[3:])


def test_no_lock_is_exit_3(held: Lake) -> None:
    assert run(held, "unlock", ODD, "--yes").exit_code == 3
    other = run(held, "unlock", str(TABLE), "--schema", "abcdefg", "--yes")
    assert other.exit_code == 3
    assert "no lock" in other.stderr
    assert run(held, "unlock", "tap-y.none", "--yes").exit_code == 3
    assert left(held) == set(keys())


def test_a_lock_that_changed_hands_is_left_alone(held: Lake) -> None:
    (seen,) = [lock for lock in locks(held.store) if lock.key == TABLE.lock(HASH)]
    held.store.delete(seen.key)
    break_lock(held.store, seen)  # gone already: nothing to do
    with WriterLock(held.store, seen.key, "w2") as lock:
        with pytest.raises(ConflictError, match="w2"):
            break_lock(held.store, seen)
        lock.check()


def test_a_writer_whose_lock_was_broken_commits_nothing(lake: Lake) -> None:
    store = BrokenStore(lake.store)

    def after(method: str, _: str) -> None:
        if method == "publish":
            assert run(lake, "unlock", str(TABLE), "--yes").exit_code == 0

    store.after = after
    with pytest.raises(ConflictError, match="process broke it.*nothing was committed") as caught:
        Lake(store).table(TABLE).writer().commit(staged_rows(store, 1))
    assert caught.value.exit_code == 4
    assert read_snapshot(lake.store, TABLE) is None
    assert [item.key for item in lake.store.list(names.RAW)] == []
    store.after = lambda _method, _key: None
    Lake(store).table(TABLE).writer().commit(staged_rows(store, 1))
    assert ids_in(lake.store) == [1]


@pytest.mark.usefixtures("processes")
def test_no_java_and_nothing_heavy(held: Lake) -> None:
    code = (
        "import sys\n"
        "from singerlake_cli.main import cli\n"
        f"cli.main(args={['--lake', held.store.uri, 'locks']!r}, standalone_mode=False)\n"
        "heavy = {'pyspark', 'pyarrow', 'boto3', 'singer_sdk', 'pandas', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_unlock_asks_no_script(held: Lake) -> None:
    asked = run(held, "--output", "json", "unlock", str(TABLE))
    assert asked.exit_code == 2
    error = json.loads(asked.stderr)["error"]
    assert (error["kind"], "--yes" in error["message"]) == ("usage", True)
    assert left(held) == set(keys())
