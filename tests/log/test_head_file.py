"""Beside a large manifest a writer reads a short file instead, and the log says whether it may."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import msgspec
import pytest

from singerlake.errors import ConflictError, DamagedError, NewerFormatError
from singerlake.format import head_file as head_format
from singerlake.format.log import Operation, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.version_notes import BlockedKeys
from singerlake.lake import Lake
from singerlake.log import checkpoint, head_file
from singerlake.log.commit import commit as append
from singerlake.log.commit import draft_entry
from singerlake.log.folding import fold
from singerlake.log.log import entries, read_snapshot
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter, update_checkpoint
from singerlake.ops.drop import drop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.build import resealed
from tests.log.broken import HASH, PROPERTIES, TABLE, BrokenStore, ids_in, staged_rows
from tests.ops.vacuum.plain_table import freeze

OTHER = SchemaEntry({"type": "object", "properties": {**PROPERTIES, "x": {}}}, [])
ROWS = 5


@pytest.fixture(autouse=True)
def _every_manifest_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_file, "SMALL_BYTES", 0)


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    """A table of some transactions; the manifest has all but the last two."""
    store = BrokenStore(LocalStore(tmp_path / "lake"))
    for number in range(1, ROWS + 1):
        with pytest.MonkeyPatch.context() as patch:
            if number > ROWS - 2:
                patch.setattr(checkpoint, "checkpoint_due", lambda _: False)
            commit(store, number)
    return store


@pytest.fixture
def never_due(store: BrokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the manifest stays as it is."""
    monkeypatch.setattr(checkpoint, "checkpoint_due", lambda _: False)


def commit(store: Store, *ids: int, schema: SchemaEntry | None = None) -> TableState:
    staged = staged_rows(store, *ids) if schema is None else staged_rows(store, *ids, schema=schema)
    snapshot = TableWriter(store, TABLE).commit(staged)
    assert snapshot is not None
    return snapshot


def light(store: Store) -> TableState:
    snapshot = read_snapshot(store, TABLE, to_add=True)
    assert snapshot is not None
    return snapshot


def full(store: Store) -> TableState:
    snapshot = read_snapshot(store, TABLE)
    assert snapshot is not None
    return snapshot


def head_of(store: Store) -> head_format.HeadFile:
    return head_format.decode(store.get(TABLE.head_file).data, "it")


def is_light(snapshot: TableState) -> bool:
    return snapshot.past is not None and not snapshot.past.is_read


def check_alike(one: TableState, other: TableState) -> None:
    """Every part is the same, whichever way it was read."""
    for field in fields(TableState):
        if field.compare and field.name not in ("checkpoint", "vacuumed"):
            mine, theirs = getattr(one, field.name), getattr(other, field.name)
            if isinstance(theirs, list):
                mine = list(mine)
            assert mine == theirs, field.name


def reads(store: BrokenStore) -> list[str]:
    """Keys that are read from now on."""
    found: list[str] = []
    store.before = lambda method, key: found.append(key) if method == "get" else None
    return found


@pytest.mark.usefixtures("never_due")
def test_a_commit_reads_nothing_of_the_past(store: BrokenStore) -> None:
    found = reads(store)
    commit(store, 6)
    log = [key for key in found if "/transactions/" in key]
    assert log == [TABLE.transaction(5), TABLE.transaction(6)]
    # The store of this test cannot tell a manifest's size before it has read it.
    assert found.count(TABLE.manifest) == found.count(TABLE.head_file) == 1
    assert ids_in(store) == [1, 2, 3, 4, 5, 6]
    assert head_of(store).last.number == 6
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 3


def test_what_was_not_read_is_there_when_it_is_asked_for(store: BrokenStore) -> None:
    snapshot = light(store)
    assert (snapshot.number, snapshot.last_block, snapshot.commit) == (5, 5, full(store).commit)
    assert len(snapshot.transactions) == 5
    assert is_light(snapshot)
    assert [block.number for block in snapshot.blocks] == [1, 2, 3, 4, 5]
    assert not is_light(snapshot)
    assert snapshot.summary(2).number == 2
    check_alike(snapshot, full(store))
    check_alike(snapshot.at(3), full(store).at(3))
    check_alike(snapshot.laid_over(snapshot.overlay), full(store).laid_over(snapshot.overlay))


def test_it_is_read_as_it_was_then(store: BrokenStore) -> None:
    """Whatever became of the manifest since."""
    early, expected = light(store), full(store)
    commit(store, 6)
    commit(store, 7)
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 7
    check_alike(early, expected)
    later, expected = light(store), full(store)
    store.delete(TABLE.manifest)
    check_alike(later, expected)


@pytest.mark.usefixtures("never_due")
def test_entries_that_only_add_are_folded_in_without_the_past(store: BrokenStore) -> None:
    stale = store.get(TABLE.head_file).data
    commit(store, 6)
    commit(store, 7, 8, schema=OTHER)
    store.replace(TABLE.head_file, stale, None)
    snapshot = light(store)
    assert is_light(snapshot)
    assert (snapshot.number, snapshot.last_block, len(snapshot.schemas)) == (7, 7, 2)
    check_alike(snapshot, full(store))


def manifest_of(store: Store) -> int:
    """The transaction that the manifest is folded up to."""
    return int(json.loads(store.get(TABLE.manifest).data)["transaction"])


@pytest.mark.parametrize("opened_anew", [True, False])
def test_a_manifest_of_many_blocks_is_written_when_it_has_grown(
    tmp_path: Path, opened_anew: bool
) -> None:
    """However few transactions they came in: it holds 1,001 things, and is due after ten."""
    store, number = LocalStore(tmp_path / "blocks"), 2000
    writer = TableWriter(store, TABLE)
    writer.commit(staged_rows(store, *range(1000), rows=1))
    written = []
    for _ in range(11):
        writer = TableWriter(store, TABLE) if opened_anew else writer
        writer.commit(staged_rows(store, number := number + 1))
        written.append(manifest_of(store))
        due = {light(store).checkpoint_due, full(store).checkpoint_due}
        assert due == {head_of(store).due}
    assert written == [1, 1, 1, 1, 6, 6, 6, 6, 6, 11, 11]
    writer.commit(staged_rows(store, *range(9), rows=1))
    assert manifest_of(store) == 13
    check_alike(light(store), full(store))


def test_a_head_file_that_does_not_say_when_has_the_manifest_written(store: BrokenStore) -> None:
    """As one of a release that knew only of transactions."""
    head = json.loads(store.get(TABLE.head_file).data)
    assert head.pop("due") > 0
    store.replace(TABLE.head_file, resealed(head), None)
    assert is_light(light(store))
    commit(store, 6)
    assert manifest_of(store) == 6
    assert head_of(store).due > 0


def freeze_it(lake: Lake) -> None:
    table = lake.table(TABLE)
    freeze(table, table.snapshot().number)


def drop_it(lake: Lake) -> None:
    drop_table(lake.store, full(lake.store), AlterOptions())


def announce(lake: Lake) -> None:
    """As a vacuum does before it deletes."""

    def draft(_: TableState) -> object:
        return draft_entry(TABLE, Operation.VACUUM_START, deletes=[f"{HASH}/gone.singer.gz"])

    append(lake.store, full(lake.store), draft)  # type: ignore[arg-type]


@pytest.mark.usefixtures("never_due")
@pytest.mark.parametrize("also", [freeze_it, drop_it, announce])
def test_behind_anything_else_all_is_read(store: BrokenStore, also: Callable[[Lake], None]) -> None:
    stale = store.get(TABLE.head_file).data
    also(Lake(store))
    store.replace(TABLE.head_file, stale, None)
    snapshot = light(store)
    assert not is_light(snapshot)
    check_alike(snapshot, full(store))
    commit(store, 6)
    check_alike(light(store), full(store))


@pytest.mark.usefixtures("never_due")
def test_what_a_vacuum_has_announced_no_writer_names(store: BrokenStore) -> None:
    staged = staged_rows(store, 6)
    announced: list[str] = []

    def before(method: str, key: str) -> None:
        if method == "put" and key == TABLE.transaction(6) and not announced:
            files = [k.key for k in store.store.list(TABLE.folder) if k.key.endswith(".singer.gz")]
            named = {block.file for block in full(store.store).blocks}
            announced.extend(f.removeprefix(TABLE.folder) for f in files)
            announced[:] = [one for one in announced if one not in named]
            entry = draft_entry(TABLE, Operation.VACUUM_START, deletes=announced)
            head = append(store.store, full(store.store), lambda _: entry)
            update_checkpoint(store.store, head)

    store.before = before
    with pytest.raises(ConflictError, match="took .* for an orphan file"):
        TableWriter(store, TABLE).commit(staged)
    assert len(announced) == 1
    store.before = lambda *_: None
    assert head_of(store).pending_deletes == {announced[0]: 6}
    assert light(store).pending_deletes == full(store).pending_deletes == {announced[0]: 6}
    assert ids_in(store) == [1, 2, 3, 4, 5]


def test_a_table_with_blocked_keys_has_none(store: BrokenStore) -> None:
    stale = store.get(TABLE.head_file).data
    blocked = BlockedKeys(1, "0" * 32, ["id"])
    entry = draft_entry(TABLE, Operation.BLOCK_KEYS, blocked=blocked)
    head = update_checkpoint(store, append(store, full(store), lambda _: entry), always=True)
    assert (head.blocked, store.get(TABLE.head_file).data) == (blocked, stale)
    assert light(store).blocked == blocked
    check_alike(light(store), full(store))
    with pytest.raises(ConflictError):
        commit(store, 6)


def test_every_part_of_a_snapshot_is_thought_of() -> None:
    """One that is new here has to go into the head file, or there must be none where it is set."""
    kept = {"schemas", "floor", "pending_deletes", "pending_lists", "checkpoint", "format", "chain"}
    kept |= {"checkpoint_due", "overlays", "drops", "erased_at"}
    unread = {"transactions", "blocks", "frozen", "deleted_versions", "earlier_versions", "dropped"}
    of_reading = {"table", "checkpoint_etag", "anchored", "doubtful", "from_log", "vacuumed"}
    not_where_set = {"restorable", "blocked", "rules"}
    known = kept | unread | of_reading | not_where_set | {"past", "given_up"}
    assert {field.name for field in fields(TableState)} == known


def of_another_table(data: bytes) -> bytes:
    return resealed({**json.loads(data), "stream": "b"})


def of_another_log(data: bytes) -> bytes:
    return resealed({**json.loads(data), "chain": "0" * 64})


def of_another_commit(data: bytes) -> bytes:
    head = json.loads(data)
    return resealed({**head, "last": {**head["last"], "commit": "another"}})


def of_no_entry(data: bytes) -> bytes:
    head = json.loads(data)
    return resealed({**head, "last": {**head["last"], "number": 17}})


def of_a_newer_release(data: bytes) -> bytes:
    return resealed({**json.loads(data), "format": 99})


def with_an_unknown_member(data: bytes) -> bytes:
    return resealed({**json.loads(data), "colour": "blue"})


@pytest.mark.parametrize(
    "changed",
    [
        of_another_table,
        of_another_log,
        of_another_commit,
        of_no_entry,
        of_a_newer_release,
        with_an_unknown_member,
        lambda _: b"",
        lambda data: data[:-20],
        lambda data: bytes(len(data)),
        lambda data: data.replace(b'"last_block": 5', b'"last_block": 4'),
        lambda _: b'{"format": 1}',
    ],
)
def test_one_that_is_not_of_this_log_is_passed_over(
    store: BrokenStore, changed: Callable[[bytes], bytes]
) -> None:
    good = store.get(TABLE.head_file).data
    assert changed(good) != good
    store.replace(TABLE.head_file, changed(good), None)
    assert light(store).past is None
    assert commit(store, 6).number == 6
    assert ids_in(store) == [1, 2, 3, 4, 5, 6]
    assert light(store).past is not None


def test_no_bit_can_change_unseen(store: BrokenStore) -> None:
    good = store.get(TABLE.head_file).data
    for place in range(0, len(good), 7):
        for bit in range(8):
            data = good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]
            with pytest.raises((DamagedError, NewerFormatError)):
                head_format.decode(data, "it")


def test_what_is_written_is_read(store: BrokenStore) -> None:
    head = head_of(store)
    again = head_format.decode(head_format.encode(msgspec.structs.replace(head, hash="")), "it")
    assert again == head


def test_a_log_that_lost_its_end_is_noticed(store: BrokenStore) -> None:
    """The head file tells of a transaction that is not there; so it is as if it were not."""
    for number in (4, 5):
        store.delete(TABLE.transaction(number))
    with pytest.raises(DamagedError, match=r"lost transaction|files that no entry lists"):
        store.delete(TABLE.transaction(3))
        commit(store, 6)


@pytest.mark.parametrize("data", [None, b"", b"\0" * 100])
def test_a_lost_manifest_is_written_again(store: BrokenStore, data: bytes | None) -> None:
    if data is None:
        store.delete(TABLE.manifest)
    else:
        store.replace(TABLE.manifest, data, None)
    commit(store, 6)
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 6
    assert ids_in(store) == [1, 2, 3, 4, 5, 6]


def test_a_writer_that_goes_on_has_all_it_wrote(store: BrokenStore) -> None:
    writer = TableWriter(store, TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "checkpoint_due", lambda _: False)
        for number in range(6, 10):
            assert writer.commit(staged_rows(store, number)) is not None
            assert writer._snapshot is not None
            assert is_light(writer._snapshot)
    last = writer.commit(staged_rows(store, 10))
    assert last is not None
    assert last.past is None
    assert json.loads(store.get(TABLE.manifest).data)["transaction"] == 10
    check_alike(last, full(store))
    assert ids_in(store) == list(range(1, 11))


def test_many_writers_lose_no_row(store: BrokenStore) -> None:
    def work(thread: int) -> None:
        schema = SchemaEntry({"type": "object", "properties": {**PROPERTIES, f"x{thread}": {}}}, [])
        for n in range(5):
            commit(store, thread * 100 + n, schema=schema)

    running = [threading.Thread(target=work, args=(n,)) for n in range(1, 4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert [one.number for one in entries(store, TABLE)] == list(range(1, ROWS + 16))
    wanted = [*range(1, ROWS + 1), *(100 * t + n for t in range(1, 4) for n in range(5))]
    assert sorted(ids_in(store)) == wanted
    check_alike(light(store), full(store))


def test_it_tells_nothing_of_rows(store: BrokenStore) -> None:
    """So an erasure has nothing to take out of it."""
    freeze_it(Lake(store))
    commit(store, 6)
    text = store.get(TABLE.head_file).data.decode()
    version = full(store).frozen[0]
    assert version.fingerprint not in text
    assert "crc" not in text
    assert not any(block.file in text for block in full(store).blocks)


def test_a_dropped_table_gets_none_and_begins_anew(store: BrokenStore) -> None:
    before = store.get(TABLE.head_file).data
    drop_it(Lake(store))
    assert store.get(TABLE.head_file).data == before
    commit(store, 17)
    assert ids_in(store) == [17]
    assert light(store).drops == full(store).drops != ()
    commit(store, 18)
    assert ids_in(store) == [17, 18]
    check_alike(light(store), full(store))


def test_beside_a_small_manifest_there_is_none(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_file, "SMALL_BYTES", 64 << 10)
        store = BrokenStore(LocalStore(tmp_path / "small"))
        found = reads(store)
        for number in range(3):
            commit(store, number)
        assert not store.exists(TABLE.head_file)
        assert TABLE.head_file not in found


def test_a_long_log_gets_one_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_file, "SMALL_BYTES", 64 << 10)
    store = LocalStore(tmp_path / "long")
    writer, snapshot = TableWriter(store, TABLE), None
    for number in range(150):
        snapshot = writer.commit(staged_rows(store, number))
    assert snapshot is not None
    assert len(store.get(TABLE.manifest).data) > head_file.SMALL_BYTES
    assert len(store.get(TABLE.head_file).data) < 4096
    assert is_light(light(store))
    check_alike(light(store), full(store))


def test_a_head_of_very_many_schemas_is_not_written(
    store: BrokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.get(TABLE.head_file).data
    monkeypatch.setattr(head_file, "_MOST_BYTES", 100)
    commit(store, 6)
    assert store.get(TABLE.head_file).data == before
    assert light(store).past is None


def test_a_rebuild_leaves_none_of_another_log(store: BrokenStore) -> None:
    store.delete(TABLE.transaction(2))
    rebuild_table(store, TABLE)
    commit(store, 6)
    assert ids_in(store) == [1, 2, 3, 4, 5, 6]
    check_alike(light(store), full(store))


def test_an_early_head_file_over_a_later_one_costs_only_entries(store: BrokenStore) -> None:
    early = full(store)
    commit(store, 6)
    head_file.write(store, early)
    assert head_of(store).last.number == 5
    assert commit(store, 7).number == 7
    assert ids_in(store) == [1, 2, 3, 4, 5, 6, 7]


def test_the_names_of_tables_do_not_clash_with_it() -> None:
    assert TABLE.head_file.startswith(TABLE.folder)
    assert TableName("tap-x", "head.json").folder != TABLE.head_file


def test_a_snapshot_of_the_past_is_as_good_to_go_on_with(store: BrokenStore) -> None:
    snapshot = light(store)
    assert [block.number for block in snapshot.blocks] == [1, 2, 3, 4, 5]  # it is read now
    commit(store, 6)
    after = fold(snapshot, entries(store, TABLE, 5))
    assert after.past is None
    check_alike(after, replace(full(store), anchored=True))
