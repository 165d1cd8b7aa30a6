"""Log entries and manifests carry the hash of their bytes, and entries that of the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import DamagedError, NewerFormatError, SingerlakeError
from singerlake.format import metadata
from singerlake.format.log import decode_entry
from singerlake.format.metadata import Manifest
from singerlake.lake import Lake
from singerlake.log.folding import fold
from singerlake.log.log import entries, read_checkpoint, read_snapshot
from singerlake.log.table_state import TableState
from singerlake.log.writer import TableWriter
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.plan import check_log
from singerlake.storage.base import Store
from tests.build import resealed
from tests.faults.plain import dump_folder, hash_of, tables
from tests.log.broken import TABLE, ids_in, staged_rows

ENTRIES = 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    store = Lake.open(str(root), create=True).store
    for number in range(1, ENTRIES + 1):
        TableWriter(store, TABLE).commit(staged_rows(store, number))
    return root


def store_of(root: Path) -> Store:
    return Lake.open(str(root)).store


def path(root: Path, number: int) -> Path:
    return root / TABLE.transaction(number)


def flips(data: bytes) -> Iterator[bytes]:
    """The bytes with one bit changed, for each bit in turn."""
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def test_each_entry_names_the_one_before(root: Path) -> None:
    store = store_of(root)
    chain = ""
    for entry in entries(store, TABLE):
        assert entry.previous == chain
        assert entry.hash == hash_of(path(root, entry.number).read_bytes())
        chain = entry.hash
    manifest = metadata.decode(store.get(TABLE.manifest).data, Manifest, "it")
    assert (manifest.transaction, manifest.chain) == (ENTRIES, chain)
    assert tables(dump_folder(root))[str(TABLE)].chain == chain


def test_no_bit_of_an_entry_can_change_unseen(root: Path) -> None:
    good = path(root, 2).read_bytes()
    for data in flips(good):
        with pytest.raises(SingerlakeError) as caught:
            decode_entry(data, 2, "it")
        assert caught.value.exit_code == 5


def test_no_bit_of_a_manifest_can_change_unseen(root: Path) -> None:
    good = (root / TABLE.manifest).read_bytes()
    for data in flips(good):
        with pytest.raises(SingerlakeError) as caught:
            metadata.decode(data, Manifest, "it")
        assert caught.value.exit_code == 5


def test_a_member_that_one_bit_makes_unknown_loses_no_row(root: Path) -> None:
    """`blocks` became `blocjs`, and the row was gone, with nothing to be seen."""
    (root / TABLE.manifest).unlink()
    good = path(root, ENTRIES).read_bytes()
    path(root, ENTRIES).write_bytes(good.replace(b'"blocks"', b'"blocjs"'))
    with pytest.raises(DamagedError, match="000000000004.json is damaged"):
        read_snapshot(store_of(root), TABLE)
    [problem] = [p for p in check_log(store_of(root), TABLE).problems if p.what == "log"]
    assert "000000000004" in problem.where


def test_a_damaged_manifest_is_passed_over(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = (root / TABLE.manifest).read_bytes()
    (root / TABLE.manifest).write_bytes(good.replace(b'"files"', b'"filds"'))
    assert ids_in(store_of(root)) == [1, 2, 3, 4]
    assert "reading the log instead" in caplog.text
    [problem] = check_log(store_of(root), TABLE).problems
    assert problem.what == "manifest"


def change(root: Path, number: int, **members: Any) -> None:
    """Change an entry, and give it the hash that it has then."""
    value = json.loads(path(root, number).read_bytes())
    path(root, number).write_bytes(resealed({**value, **members}))


def test_an_entry_that_was_exchanged_is_found(root: Path) -> None:
    """Its own hash is right; the next one was written after a different."""
    change(root, 2, commit="another")
    assert ids_in(store_of(root)) == [1, 2, 3, 4]  # by the manifest
    [problem] = [p for p in check_log(store_of(root), TABLE).problems if p.what == "log"]
    assert problem.where == TABLE.transaction(3)
    (root / TABLE.manifest).unlink()
    with pytest.raises(DamagedError, match="transaction 3 .* was written after a different"):
        read_snapshot(store_of(root), TABLE)


def test_an_entry_behind_the_manifest_must_follow_it(root: Path) -> None:
    store = store_of(root)
    manifest = store.get(TABLE.manifest).data
    TableWriter(store, TABLE).commit(staged_rows(store, 5))
    (root / TABLE.manifest).write_bytes(manifest)
    assert ids_in(store) == [1, 2, 3, 4, 5]
    change(root, 5, previous="0" * 64)
    with pytest.raises(DamagedError, match="transaction 5 .* was written after a different"):
        read_snapshot(store, TABLE)


@pytest.mark.parametrize("number", [1, 3])
def test_an_unknown_member_is_refused(root: Path, number: int) -> None:
    change(root, number, colour="blue")
    with pytest.raises(DamagedError, match="unknown field `colour`"):
        decode_entry(path(root, number).read_bytes(), number, "it")


def test_an_unknown_member_of_format_1_is_passed_over() -> None:
    value = {
        "format": 1,
        "number": 1,
        "commit": "c",
        "operation": "sync",
        "stream": "a",
        "time": "",
        "colour": "blue",
        "schemas": {"abcdefg": {"schema": {"any": 1}, "colour": "blue"}},
        "blocks": [{"number": 1, "file": "f", "offset": 0, "length": 1, "rows": 1, "bytes": 1}],
        "version": None,
    }
    value["blocks"][0]["colour"] = "blue"  # type: ignore[index]
    entry = decode_entry(json.dumps(value).encode(), 1, "it")
    assert (entry.blocks[0].number, entry.schemas["abcdefg"].schema) == (1, {"any": 1})
    row = [1, 0, 1, 1, 1, "", "", [], 0, None, "more"]
    manifest = {"format": 1, "tap": "t", "stream": "a", "transaction": 0, "colour": "blue"}
    found = metadata.decode(
        json.dumps({**manifest, "files": [{"path": "f", "blocks": [row]}]}).encode(), Manifest, "it"
    )
    assert found.files[0].blocks[0].number == 1


def test_an_entry_of_format_1_cannot_follow_one_of_format_2(root: Path) -> None:
    value = json.loads(path(root, ENTRIES).read_bytes())
    plain = {k: v for k, v in value.items() if k not in ("hash", "previous")}
    path(root, ENTRIES).write_text(json.dumps({**plain, "format": 1}))
    (root / TABLE.manifest).unlink()
    with pytest.raises(DamagedError, match="no release writes such a log"):
        read_snapshot(store_of(root), TABLE)


def test_a_first_entry_in_the_place_of_another(root: Path) -> None:
    value = json.loads(path(root, 3).read_bytes())
    del value["previous"]
    with pytest.raises(DamagedError, match="the entry that it follows"):
        decode_entry(resealed(value), 3, "it")


@pytest.mark.parametrize("lost", [[1], [2], [2, 3], [1, 2, 3, 4], [4], [1, 4]])
def test_rebuilt_entries_keep_the_chain_whole(root: Path, lost: list[int]) -> None:
    store = store_of(root)
    chain = read_checkpoint(store, TABLE).chain  # type: ignore[union-attr]
    for number in lost:
        path(root, number).unlink()
    assert rebuild_table(store, TABLE).restored == len(lost)
    assert not check_log(store, TABLE).problems
    (root / TABLE.manifest).unlink()
    snapshot = read_snapshot(store, TABLE)
    assert snapshot is not None
    assert snapshot.chain == chain
    assert ids_in(store) == [1, 2, 3, 4]
    assert tables(dump_folder(root))[str(TABLE)].chain == chain
    TableWriter(store, TABLE).commit(staged_rows(store, 5))
    assert ids_in(store) == [1, 2, 3, 4, 5]


def test_a_rebuild_of_what_was_half_rebuilt(root: Path) -> None:
    store = store_of(root)
    for number in (2, 3):
        path(root, number).unlink()
    rebuild_table(store, TABLE)
    path(root, 3).unlink()
    rebuild_table(store, TABLE)
    assert not check_log(store, TABLE).problems


def test_a_damaged_entry_is_not_gone_over_in_silence_by_rebuild(root: Path) -> None:
    path(root, 2).write_bytes(path(root, 2).read_bytes().replace(b'"sync"', b'"sinc"'))
    with pytest.raises(DamagedError, match="move it away and run rebuild again"):
        rebuild_table(store_of(root), TABLE)
    path(root, 2).unlink()
    rebuild_table(store_of(root), TABLE)
    assert not check_log(store_of(root), TABLE).problems


def test_a_bit_in_the_number_of_the_format_is_damage(root: Path) -> None:
    """Not a newer release's: what that writes has its own hash as well."""
    store = store_of(root)
    for key in (TABLE.manifest, TABLE.transaction(2)):
        file = root / key
        good = file.read_bytes()
        changed = good.replace(b'"format": 5', b'"format": 7', 1)
        assert changed != good
        file.write_bytes(changed)
        if key == TABLE.manifest:
            assert ids_in(store) == [1, 2, 3, 4], "it can be derived"
            file.write_bytes(good)
        else:
            with pytest.raises(DamagedError, match="is damaged: its bytes do not have") as told:
                [*entries(store, TABLE)]
            assert not isinstance(told.value, NewerFormatError)
            file.write_bytes(resealed({**json.loads(good), "format": 7}))
            with pytest.raises(NewerFormatError, match="upgrade"):
                [*entries(store, TABLE)]


def test_no_entry_of_format_1_follows_a_later_one(root: Path) -> None:
    store = store_of(root)
    head = fold(TableState(TABLE), entries(store, TABLE))
    again = msgspec.structs.replace(
        next(e for e in entries(store, TABLE) if e.number == ENTRIES),
        format=1,
        number=ENTRIES + 1,
        previous="",
        blocks=[],
    )
    with pytest.raises(DamagedError, match="has format 1 and comes after one of format 5"):
        fold(head, [again])


@pytest.mark.parametrize("formats", [(2, 2, 2, 2), (2, 3, 4, 5), (5, 4, 2, 3)])
def test_formats_that_no_release_wrote_are_read(root: Path, formats: tuple[int, ...]) -> None:
    """Whoever built a lake with what came between two releases can open it."""
    store = store_of(root)
    before = fold(TableState(TABLE), entries(store, TABLE))
    chain = ""
    for number, form in enumerate(formats, 1):
        written = json.loads(path(root, number).read_bytes())
        data = resealed({**written, "format": form, **({"previous": chain} if chain else {})})
        path(root, number).write_bytes(data)
        chain = json.loads(data)["hash"]
    (root / TABLE.manifest).unlink()
    after = fold(TableState(TABLE), entries(store, TABLE))
    assert (after.blocks, after.number) == (before.blocks, ENTRIES)
    rebuild_table(store, TABLE)
    path(root, 3).unlink()
    rebuild_table(store, TABLE)
    assert [e.format for e in entries(store, TABLE)] == [*formats[:2], 5, formats[3]]
    assert not check_log(store, TABLE).problems
