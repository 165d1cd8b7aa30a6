"""A large manifest's lists are packed, and nobody sees a difference."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from singerlake.errors import DamagedError, InvalidNameError
from singerlake.format import metadata, packed
from singerlake.format.log import Block, Entry, SchemaEntry, seal_entry
from singerlake.format.metadata import Manifest, TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.packed import Packed, PackedSequence
from singerlake.format.sealed import seal
from singerlake.log.checkpoint import (
    differing,
    from_manifest,
    to_manifest,
    write_checkpoint,
)
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.local.store import LocalStore

TABLE = TableName("tap", "s")
COUNT = 200
DECODER = msgspec.json.Decoder(list[TransactionSummary])
AWKWARD = 'a"},{"number":7,"x":"\\'
"""What people may have written, and what looks like the end of an item."""


def entries(first: int, last: int, chain: str = "") -> list[Entry]:
    found = []
    for number in range(first, last + 1):
        time = f"2026-01-01T00:00:{number % 60:02d}.000000Z"
        file = f"abcdefg/s-{number:020d}-x.singer.gz"
        block = Block(number, file, 0, 90, 1, 99, time, time, crc=number)
        operation = {50: "drop", 51: "undrop"}.get(number, "sync")
        entry = Entry(
            format=3 if number >= 50 else 2,
            number=number,
            commit=f"{number:032x}",
            operation=operation,
            stream="s",
            time=time,
            writer=AWKWARD,
            schema_hash="abcdefg",
            schemas={"abcdefg": SchemaEntry({"title": AWKWARD}, [])} if number == 1 else {},
            blocks=[block] if operation == "sync" else [],
            previous=chain,
        )
        if entry.blocks and number > 51:
            entry = msgspec.structs.replace(
                entry, blocks=[msgspec.structs.replace(block, number=number - 2)]
            )
        sealed_entry, _ = seal_entry(entry)
        chain = sealed_entry.chain
        found.append(sealed_entry)
    return found


@pytest.fixture(scope="module")
def whole() -> TableState:
    return fold(TableState(TABLE), entries(1, COUNT))


@pytest.fixture(autouse=True)
def _all_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_PACKED_BYTES", 0)
    monkeypatch.setattr(packed, "_CHUNK_BYTES", 1000)


def read(data: bytes) -> TableState:
    return from_manifest(TABLE, metadata.decode(data, Manifest, "it"))


@pytest.mark.parametrize("indent", [False, True])
def test_the_same_is_read(whole: TableState, indent: bool) -> None:
    snapshot = read(metadata.encode(to_manifest(whole), indent=indent))
    assert isinstance(snapshot.transactions, PackedSequence)
    assert [*differing(snapshot, whole)] == []
    assert [*differing(whole, snapshot)] == []
    assert (snapshot.number, snapshot.drops, snapshot.last_block) == (200, whole.drops, 198)
    assert snapshot.transactions[7].writer == AWKWARD
    assert metadata.encode(to_manifest(snapshot)) == metadata.encode(to_manifest(whole))


def test_it_is_a_sequence_as_any_other(whole: TableState) -> None:
    found = read(metadata.encode(to_manifest(whole), indent=False)).transactions
    assert isinstance(found, PackedSequence)
    assert len(found._packed.starts) > 20, "it is one piece"
    every = list(whole.transactions)
    assert [*found] == every == [found[number] for number in range(COUNT)]
    assert [*reversed(found)] == every[::-1]
    assert (found[-1], found[-COUNT]) == (every[-1], every[0])
    assert len(found._kept) <= packed._KEPT
    for outside in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            found[outside]
    for part in (slice(5), slice(190, None), slice(3, 150, 7), slice(None, None, -1), slice(9, 3)):
        assert [*found[part]] == every[part]
        assert found[part] == every[part]
        assert [*found[part][1:]] == every[part][1:]
    assert found[:5] != every[1:6]
    assert found != every[:-1]
    for number in (1, 77, 198):
        places = [bisect_right(one, number, key=lambda t: t.last_block) for one in (found, every)]
        assert places[0] == places[1]


def test_what_is_appended_is_in_the_copy_alone(whole: TableState) -> None:
    snapshot = read(metadata.encode(to_manifest(whole), indent=False))
    more = entries(COUNT + 1, COUNT + 3, whole.chain)
    after, expected = fold(snapshot, more), fold(whole, more)
    assert isinstance(after.transactions, PackedSequence)
    assert [*after.transactions] == [*expected.transactions]
    assert [*after.transactions[198:]] == [*expected.transactions[198:]]
    assert (len(snapshot.transactions), snapshot.number) == (COUNT, COUNT)
    again = fold(after, entries(COUNT + 4, COUNT + 4, after.chain))
    assert (again.number, after.number) == (COUNT + 4, COUNT + 3)
    before = after.at(60)
    assert [*before.transactions] == [*expected.transactions[:60]]
    assert fold(before, []).number == 60
    assert isinstance(before.transactions, PackedSequence)
    assert before.transactions.with_more() == [*expected.transactions[:60]]


def of_another_order(text: str) -> str:
    return text.replace('"number":7,"commit"', '"number":8,"commit"')


def with_a_hole(text: str) -> str:
    start = text.index('{"number":7,')
    return text[:start] + text[text.index('{"number":8,') :]


@pytest.mark.parametrize(
    "change",
    [
        of_another_order,
        with_a_hole,
        lambda text: text.replace('"operation":"drop"', '"operation":17'),
        lambda text: text.replace('"transactions":[{', '"transactions":{"x":[{', 1),
        lambda text: text.replace('"files":[', '"files":17,"x":[', 1),
        lambda text: text.replace('{"path":"abcdefg/s-00000000000000000100', '{"path":"../x', 1),
        lambda text: text.replace("[150,0,90,", "[150,-1,90,", 1),
        lambda text: text.replace('{"number":9,', '{"number":9,"colour":1,', 1),
    ],
)
def test_what_is_wrong_is_found(whole: TableState, change: Callable[[str], str]) -> None:
    good = msgspec.json.encode(to_manifest(whole)).decode()
    assert read(seal(good.encode())[0]).number == COUNT
    changed = change(good)
    assert changed != good
    with pytest.raises((DamagedError, InvalidNameError)):
        read(seal(changed.encode())[0])


def test_a_manifest_of_wrong_items_is_written_again(whole: TableState, tmp_path: Path) -> None:
    """Though its hash is right, and so it is not seen before somebody wants the items."""
    store = LocalStore(tmp_path / "lake")
    good = msgspec.json.encode(to_manifest(whole))
    bad = seal(good.replace(b"[150,0,90,", b"[150,-1,90,", 1))[0]
    store.put_if_absent(TABLE.manifest, bad)
    with pytest.raises(DamagedError, match=r"manifest\.json cannot be read: Expected `int` >= 0"):
        from_manifest(TABLE, metadata.decode(bad, Manifest, TABLE.manifest))
    write_checkpoint(store, whole)
    assert [*differing(read(store.get(TABLE.manifest).data), whole)] == []


@pytest.mark.parametrize("text", [b"17", b"{}", b'"x"', b"null", b"[17]", b'[{"number":1}]'])
def test_no_list_of_such_items(text: bytes) -> None:
    noted: list[object] = []
    with pytest.raises(DamagedError, match="it cannot be read"):
        Packed(memoryview(text), "number", DECODER, "it", noted.extend)
    assert noted == []


@pytest.mark.parametrize("text", [b"[17]", b'[{"number":1}]', b"[1]]"])
def test_items_that_were_not_noted_are_looked_at_when_they_are_read(text: bytes) -> None:
    unread = Packed(memoryview(text), "number", DECODER, "it")
    with pytest.raises(DamagedError, match="it cannot be read"):
        list(unread)


def test_an_empty_list() -> None:
    noted: list[object] = []
    empty = PackedSequence(Packed(memoryview(b"[]"), "number", DECODER, "it", noted.extend))
    assert (len(empty), [*empty], empty == [], noted) == (0, [], True, [])
