"""Bytes made up by hypothesis: only the project's own errors, and one verdict in any chunks."""

from __future__ import annotations

import json
import random
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError, InputError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import log, metadata
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.checkpoint import from_manifest, to_manifest
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.local.store import LocalStore
from target_singerlake.errors import InvalidLineError
from target_singerlake.reader import ChunkReader
from tests.build import commit_rows, resealed
from tests.faults.cases import fast_folder
from tests.hostile.conftest import Chunks
from tests.target.harness import run

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["a", "b", "RECORD", "SCHEMA", "STATE", "2026-01-01T00:00:00Z", "../x", "\0"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
types = st.sampled_from(
    ["integer", "number", "string", "boolean", "object", "array", "null", ["null", "integer"], 5]
)
columns = st.dictionaries(
    st.sampled_from(["id", "a", "ä", "_sdc_deleted_at"]),
    st.one_of(st.fixed_dictionaries({"type": types}), st.dictionaries(st.text(max_size=6), values)),
    max_size=3,
)


def _message(kind: str, **members: Any) -> Any:
    return st.fixed_dictionaries({"type": st.just(kind), **members})


streams = st.sampled_from(["a", "b"])
good_messages = st.one_of(
    _message(
        "SCHEMA",
        stream=streams,
        schema=st.fixed_dictionaries({"properties": columns}),
        key_properties=st.sampled_from([[], ["id"], ["nope"], None]),
    ),
    _message(
        "RECORD", stream=streams, record=st.dictionaries(st.sampled_from(["id", "a"]), values)
    ),
    _message(
        "RECORD",
        stream=streams,
        record=st.dictionaries(st.sampled_from(["id", "a"]), values),
        time_extracted=scalars,
        version=scalars,
    ),
    _message("STATE", value=values),
    _message("ACTIVATE_VERSION", stream=streams, version=scalars),
)
messages = st.one_of(good_messages, st.dictionaries(st.text(max_size=8), values, max_size=4))
FIRST = [
    {"type": "SCHEMA", "stream": s, "schema": {"properties": {"id": {"type": "integer"}}}}
    for s in "ab"
]


def _verdict(data: bytes, chunk: int) -> tuple[str, Any]:
    """What a run of the whole target makes of it: an error's words, or what landed."""
    with (
        fast_folder() as folder,
        mock.patch("target_singerlake.reader.CHUNK", chunk),
        mock.patch("singerlake.format.times.now", lambda: Chunks.NOW),
    ):
        try:
            states = run(folder / "lake", data)
        except InputError as error:
            return type(error).__name__, str(error)
        lake = Lake.open(str(folder / "lake"), create=True)
        landed = {}
        for name in lake.tables():
            table = lake.table(name)
            texts = [table.read_block(block) for block in table.snapshot().blocks]
            landed[name.stream] = b"".join(format_block.lines(text)[1] for text in texts)
        return "taken", (states, landed)


@EXAMPLES
@given(
    st.lists(messages, max_size=8),
    st.lists(st.tuples(st.integers(0, 8), st.binary(max_size=12)), max_size=2),
)
def test_a_run_is_taken_or_refused_alike_in_any_chunks(
    some: list[Any], junk: list[tuple[int, bytes]]
) -> None:
    lines = [json.dumps(message).encode() for message in [*FIRST, *some]]
    for place, data in junk:
        lines.insert(min(place, len(lines)), data.replace(b"\n", b""))
    data = b"".join(line + b"\n" for line in lines)
    at_once = _verdict(data, 1 << 20)
    assert _verdict(data, 64) == at_once


@EXAMPLES
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_valid_input_with_flipped_bytes(seed: int, flips: int) -> None:
    dice = random.Random(seed)
    records = [{"type": "RECORD", "stream": "a", "record": {"id": n}} for n in range(20)]
    data = bytearray(b"".join(json.dumps(m).encode() + b"\n" for m in [*FIRST, *records]))
    for _ in range(flips):
        data[dice.randrange(len(data))] = dice.randrange(256)
    assert _verdict(bytes(data), 1 << 20) == _verdict(bytes(data), 100)


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    class Endless:
        taken = 0

        def read(self, size: int) -> bytes:
            self.taken += size
            return b"x" * size

    source = Endless()
    with (
        mock.patch("target_singerlake.reader.LINE_BYTES", 1 << 20),
        pytest.raises(InvalidLineError, match="longer than"),
    ):
        list(ChunkReader().chunks(source))  # type: ignore[arg-type]
    assert source.taken <= 2 << 20


def _mutated(value: Any, dice: random.Random, junk: Any) -> Any:
    """The same JSON with something else at one place."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(sorted(value))
        if dice.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _mutated(value[key], dice, junk)}
    if isinstance(value, list) and value and dice.random() < 0.9:
        place = dice.randrange(len(value))
        return [*value[:place], _mutated(value[place], dice, junk), *value[place + 1 :]]
    return junk


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table's metadata, by kind."""
    root = tmp_path_factory.mktemp("fuzz") / "lake"
    lake = Lake.open(str(root), create=True)
    for n in range(2):
        commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, ["id"], [{"id": n}, 7, {"id": 5}])
    name = TableName("tap", "t")
    store = lake.store
    return {
        "entry": json.loads(store.get(name.transaction(1)).data),
        "manifest": json.loads(store.get(name.manifest).data),
        "root": str(root),
    }


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), junk=values, times=st.integers(1, 3))
def test_a_mutated_entry_or_manifest(
    whole: dict[str, Any], seed: int, junk: Any, times: int
) -> None:
    dice = random.Random(seed)
    table = TableName("tap", "t")
    store = LocalStore(Path(whole["root"]))
    entry, manifest = whole["entry"], whole["manifest"]
    for _ in range(times):
        entry, manifest = _mutated(entry, dice, junk), _mutated(manifest, dice, junk)
    for data, folded in (
        (resealed(entry), _by_entry),
        (resealed(manifest), _by_manifest),
    ):
        try:
            snapshot = folded(table, data)
            for transaction in snapshot.transactions:
                snapshot.at(transaction.number)
            metadata.encode(to_manifest(snapshot))
            _ = snapshot.schema
            for block in snapshot.blocks:
                Lake(store).table(table).read_block(block)
        except SingerlakeError as error:
            assert error.exit_code in (2, 5), repr(error)


def _by_entry(table: TableName, data: bytes) -> TableState:
    return fold(TableState(table), [log.decode_entry(data, 1, "entry")])


def _by_manifest(table: TableName, data: bytes) -> TableState:
    return from_manifest(table, metadata.decode(data, metadata.Manifest, "manifest"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_metadata_readers_take_any_bytes(data: bytes) -> None:
    kinds = (
        metadata.Manifest,
        metadata.Catalogue,
        metadata.LakeFile,
        metadata.Lock,
        metadata.IndexMarker,
    )
    for kind in kinds:
        with suppress(DamagedError):
            metadata.decode(data, kind, "it")
    with suppress(DamagedError):
        log.decode_entry(data, 1, "it")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 4), st.booleans())
def test_a_block_with_flipped_bytes_is_itself_or_damaged(seed: int, flips: int, cut: bool) -> None:
    dice = random.Random(seed)
    text = b'{"type":"SCHEMA"}\n' + b'{"type":"RECORD"}\n' * 50
    data = bytearray(format_block.encode(text, 50, 1))
    for _ in range(flips):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    if cut:
        del data[dice.randrange(len(data)) :]
    try:
        assert format_block.decode(bytes(data), len(text), "it") == text
    except DamagedError:
        assert flips or cut


@pytest.mark.parametrize("claimed", [0, 1, 1000, (1 << 31) - 1])
def test_a_gzip_bomb_makes_no_more_than_the_log_says(claimed: int) -> None:
    """20 MiB of zeros in 20 kB: at most what was claimed, and nothing where it is too much."""
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b"\0" * (1 << 20)
    bomb = b"".join([*(press.compress(piece) for _ in range(20)), press.flush()])
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError):
            format_block.decode(bomb, claimed, "it")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ((80 << 20) if claimed > 1000 else (1 << 20))
