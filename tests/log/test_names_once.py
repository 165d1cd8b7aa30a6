"""A data file's name is never used twice, so what is deleted late is never another's file.

All files here hold records of one time: before names ended at random, they had one name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.errors import (
    ConflictError,
    DamagedError,
    OutcomeUnknownError,
    SingerlakeError,
    StoreError,
)
from singerlake.lake import Lake
from singerlake.log.log import read_snapshot
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions, plan_vacuum
from singerlake.storage.base import KeyExistsError, Store
from singerlake.storage.local.store import LocalStore
from tests.log.broken import (
    TABLE,
    BrokenStore,
    ids_in,
    raising,
    staged_rows,
)

AT_ONCE = VacuumOptions(
    retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=0, parts=(DELETE,)
)


@pytest.fixture
def plain(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


@pytest.fixture
def store(plain: LocalStore) -> BrokenStore:
    return BrokenStore(plain)


def write(store: Store, *ids: int) -> TableState:
    snapshot = TableWriter(store, TABLE).commit(staged_rows(store, *ids))
    assert snapshot is not None
    return snapshot


def files(store: Store) -> list[str]:
    return [item.key for item in store.list(TABLE.folder) if item.key.endswith(".singer.gz")]


def run_vacuum(
    store: Store, before_deletion: Callable[[], None] = lambda: None
) -> Callable[[], list[str]]:
    """Announce the deletion of what nothing names; gives what does it and says that it is done."""
    plan = plan_vacuum(store, Lake(store).table(TABLE).snapshot(), AT_ONCE)
    after, found = vacuum.announce(store, plan, AT_ONCE, "vacuum")

    def finish() -> list[str]:
        deleted, _ = vacuum.delete_garbage(store, after, found, AT_ONCE, check=before_deletion)
        vacuum.finish(store, after, deleted, found.vanished, writer_id="vacuum", metrics={})
        return [item.key for item in deleted]

    return finish


def once(work: Callable[[], object]) -> Callable[[], None]:
    done: list[object] = []

    def hook() -> None:
        if not done:
            done.append(None)
            work()

    return hook


def test_who_wakes_after_a_vacuum_took_its_file_deletes_only_its_own(
    plain: LocalStore, store: BrokenStore
) -> None:
    """It stopped between publishing and committing; another brought rows of the same time."""
    write(plain, 1)

    def others() -> None:
        plain.delete(TABLE.lock(read_snapshot(plain, TABLE).schema_hash))  # type: ignore[union-attr]
        assert len(run_vacuum(plain)()) == 1
        write(plain, 2)

    hook = once(others)
    store.before = lambda method, key: hook() if (method, key[-7:]) == ("put", "02.json") else None
    with pytest.raises(ConflictError):
        write(store, 3)
    assert ids_in(plain) == [1, 2]
    assert len(files(plain)) == 2


def test_a_vacuum_that_sleeps_before_it_deletes(plain: LocalStore) -> None:
    """Another took over and finished, and a sync brought rows of the same time."""
    write(plain, 1)
    staged_rows(plain, 9).publish()  # a dead writer's

    def others() -> None:
        assert len(run_vacuum(plain)()) == 1
        write(plain, 2)

    sleeping = run_vacuum(plain, once(others))
    (gone,) = sleeping()
    assert gone not in files(plain)
    assert ids_in(plain) == [1, 2]


def test_a_deletion_that_arrives_late(plain: LocalStore, store: BrokenStore) -> None:
    """A proxy delivers it once more, after the retry succeeded and the rows came again."""
    write(plain, 1)
    left = staged_rows(plain, 9)
    left.publish()
    late: list[str] = []
    store.after = lambda method, key: late.append(key) if method == "delete" else None
    run_vacuum(store)()
    assert any(key.endswith(".singer.gz") for key in late)
    for n in (2, 3):
        write(plain, n)
    for key in late:
        plain.delete(key)
    assert ids_in(plain) == [1, 2, 3]


def test_a_withdrawal_that_arrives_late(plain: LocalStore, store: BrokenStore) -> None:
    write(plain, 1)
    late: list[str] = []
    store.after = lambda method, key: late.append(key) if method == "delete" else None
    store.before = raising("transactions/", StoreError("refused"))
    with pytest.raises(StoreError, match="refused"):
        write(store, 2)
    assert any(key.endswith(".singer.gz") for key in late)
    write(plain, 2)
    for key in late:
        plain.delete(key)
    assert ids_in(plain) == [1, 2]


def test_a_sleeping_reader_gets_its_rows_or_an_error(plain: LocalStore) -> None:
    """Never another row, under the bookmark of an old transaction."""
    write(plain, 1)
    write(plain, 2)
    table = Lake(plain).table(TABLE)
    asleep = table.snapshot()
    for block in asleep.blocks:
        plain.delete(TABLE.data(block.file))
    write(plain, 3)
    for block in asleep.blocks:
        with pytest.raises(DamagedError, match="is missing: the file does not exist"):
            table.read_block(block)


def test_another_file_in_the_place_of_one_is_not_read(plain: LocalStore) -> None:
    """Sound in itself, of the same length and as many rows: the log's checksum tells."""
    write(plain, 1)
    snapshot = write(plain, 2)
    first, second = (plain.root / TABLE.data(block.file) for block in snapshot.blocks)
    assert first.stat().st_size == second.stat().st_size
    first.write_bytes(second.read_bytes())
    table = Lake(plain).table(TABLE)
    with pytest.raises(DamagedError, match=rf"block 1 of .*{first.name}.* not the block in"):
        table.read_block(snapshot.blocks[0])
    assert table.read_block(snapshot.blocks[1])


def test_a_name_said_to_be_taken_is_looked_at(plain: LocalStore, store: BrokenStore) -> None:
    """The first request got through, its reply did not, and the second found the name taken."""
    tried: list[str] = []

    def after(method: str, key: str) -> None:
        if method == "publish":
            tried.append(key)
            raise KeyExistsError("taken")

    store.after = after
    write(store, 1)
    assert files(plain) == tried
    assert ids_in(plain) == [1]


def test_a_name_that_is_really_taken_is_left_alone(plain: LocalStore, store: BrokenStore) -> None:
    taken: list[str] = []

    def before(method: str, key: str) -> None:
        if method == "publish" and not taken:
            taken.append(key)
            plain.put_if_absent(key, b"another's")

    store.before = before
    write(store, 1)
    assert plain.get(taken[0]).data == b"another's"
    assert ids_in(plain) == [1]


def test_a_store_that_takes_every_name_for_taken(store: BrokenStore) -> None:
    store.before = raising(".singer.gz", KeyExistsError("taken"))
    with pytest.raises(StoreError, match="singerlake doctor"):
        write(store, 1)


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), StoreError("refused")])
def test_what_may_have_been_published_is_left(
    plain: LocalStore, store: BrokenStore, error: SingerlakeError
) -> None:
    """Only a file whose publication succeeded is its writer's to delete."""
    write(plain, 1)
    published = files(plain)
    deleted: list[str] = []

    def after(method: str, key: str) -> None:
        if method == "publish":
            raise error
        if method == "delete":
            deleted.append(key)

    store.after = after
    with pytest.raises(type(error)):
        write(store, 2)
    assert not [key for key in deleted if key.endswith(".singer.gz")]
    assert len(files(plain)) == len(published) + 1
    assert ids_in(plain) == [1]
