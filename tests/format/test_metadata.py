"""Log entries and derived files: any junk ends in one of three errors, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake import FORMAT
from singerlake.errors import DamagedError, InvalidNameError, NewerFormatError
from singerlake.format import log as format_log
from singerlake.format import metadata
from singerlake.format.log import Block, Entry, FrozenVersion, SchemaEntry
from singerlake.format.metadata import (
    INDEX_FORMAT,
    LAKE_FORMAT,
    Catalogue,
    IndexMarker,
    LakeFile,
    Lock,
    Manifest,
    decode,
)
from singerlake.format.names import TableName
from singerlake.log.checkpoint import from_manifest, to_manifest
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from tests.build import linked, resealed

TABLE = TableName("tap-x", "a")
BLOCKS = [
    Block(1, "abcdefg/a-1.singer.gz", 0, 100, 5, 500, "2026-01-01T00:00:00.000000Z", "x"),
    Block(2, "abcdefg/a-1.singer.gz", 100, 50, 0, 60, activations=[(0, 7)]),
    Block(3, "hijklmn/a-2.singer.gz", 0, 10, 1, 20),
]
ENTRY = Entry(
    format=FORMAT,
    number=1,
    commit="c",
    operation="sync",
    stream="a",
    time="2026-01-01T00:00:00.000000Z",
    schema_hash="hijklmn",
    schemas={"abcdefg": SchemaEntry({"x": 1.5}, ["id"]), "hijklmn": SchemaEntry({})},
    blocks=BLOCKS,
    version=FrozenVersion(
        number=1, transaction=1, schema_hash="hijklmn", rows=6, fingerprint="f" * 32
    ),
    metadata={"run": [1, None]},
    metrics={"seconds": 1.5},
)


def snapshot() -> TableState:
    return fold(TableState(TABLE), linked([ENTRY]))


def test_an_entry_reads_back() -> None:
    data = format_log.seal_entry(ENTRY)[1]
    assert data.endswith(b"}\n")
    assert [format_log.decode_entry(data, 1, "x")] == [*linked([ENTRY])]
    assert ENTRY.rows == 6
    assert ENTRY.bytes == 160
    assert BLOCKS[2].schema_hash == "hijklmn"


def test_a_manifest_reads_back() -> None:
    data = metadata.encode(to_manifest(snapshot()))
    again = from_manifest(TABLE, metadata.decode(data, Manifest, "x"))
    assert (again.blocks, again.schemas, again.number) == (BLOCKS, ENTRY.schemas, 1)
    assert again.checkpoint == 1
    assert json.loads(data)["versions"] == {"abcdefg": "v1", "hijklmn": "v2"}


def test_an_entry_under_another_number() -> None:
    with pytest.raises(DamagedError, match="contains the number of transaction 1"):
        format_log.decode_entry(format_log.seal_entry(ENTRY)[1], 2, "x")


@pytest.mark.parametrize("kind", [Manifest, LakeFile])
def test_a_newer_format_is_refused_even_in_another_shape(kind: Any) -> None:
    data = json.dumps({"format": FORMAT + 1, "anything": []}).encode()
    with pytest.raises(NewerFormatError, match="upgrade"):
        metadata.decode(data, kind, "x")
    with pytest.raises(NewerFormatError, match="upgrade"):
        format_log.decode_entry(data, 1, "x")


def test_the_lock_is_what_the_publication_says() -> None:
    lock = Lock(writer_id="w", acquired="a", refreshed="r")
    assert json.loads(metadata.encode(lock)) == {
        "writer-id": "w",
        "acquired": "a",
        "refreshed": "r",
        "beat": 0,
    }
    earlier = b'{"writer-id": "w", "acquired": "a", "refreshed": "r"}'
    assert metadata.decode(earlier, Lock, "x") == lock


junk_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.sampled_from(["", "a", "../x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


@st.composite
def altered(draw: st.DrawFn, good: bytes) -> bytes:
    """Bytes cut and changed, or JSON with some value replaced anywhere in it."""
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(good)))
        return good[:cut] + draw(st.binary(max_size=4)) + good[cut + draw(st.integers(0, 5)) :]
    value = json.loads(good)
    holder = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if isinstance(holder[key], dict | list) and holder[key] and draw(st.booleans()):
            holder = holder[key]
            continue
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = draw(junk_values)
        break
    return resealed(value) if draw(st.booleans()) else json.dumps(value).encode()


@settings(max_examples=500, deadline=None)
@given(altered(format_log.seal_entry(ENTRY)[1]) | st.binary(max_size=30))
def test_a_log_entry_of_junk(data: bytes) -> None:
    try:
        entry = format_log.decode_entry(data, 1, "here")
        after = fold(TableState(TABLE), [entry])
    except (DamagedError, NewerFormatError, InvalidNameError):
        return
    assert [b.number for b in after.blocks] == list(range(1, len(after.blocks) + 1))
    for block in after.blocks:
        assert TABLE.data(block.file).startswith(TABLE.folder)


@settings(max_examples=500, deadline=None)
@given(altered(metadata.encode(to_manifest(snapshot()))) | st.binary(max_size=30))
def test_a_manifest_of_junk(data: bytes) -> None:
    try:
        found = from_manifest(TABLE, metadata.decode(data, Manifest, "here"))
    except (DamagedError, NewerFormatError, InvalidNameError):
        return
    assert found.number == len(found.transactions)
    assert found.table == TABLE
    found.blocks_after(0)
    found.at(found.number)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([Catalogue, LakeFile, Lock]), st.binary(max_size=30) | junk_values)
def test_other_files_of_junk(kind: Any, junk: Any) -> None:
    data = junk if isinstance(junk, bytes) else json.dumps(junk).encode()
    try:
        assert isinstance(metadata.decode(data, kind, "here"), msgspec.Struct)
    except DamagedError as error:
        assert "here" in str(error)


@pytest.mark.parametrize(("kind", "known"), [(LakeFile, LAKE_FORMAT), (IndexMarker, INDEX_FORMAT)])
def test_file_with_a_format_of_its_own_is_refused_above_its_number(
    kind: type[LakeFile | IndexMarker], known: int
) -> None:
    """Although the tables' number is higher."""
    assert known < FORMAT
    with pytest.raises(NewerFormatError, match=f"format {known + 1}, .* reads up to {known}"):
        decode(b'{"format": %d}\n' % (known + 1), kind, "the file")
