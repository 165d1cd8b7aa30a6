"""Blocks are passed over by their keys' bounds: never one that holds a key, whatever it is now."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import SingerlakeError
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.lake import Lake
from singerlake.log import blocks as stored
from singerlake.log.table_state import TableState
from singerlake.overlay import overlay_changes as changes
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.blocks.asked_keys import NEVER, AskedKeys
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.changes import row_ids
from singerlake.rows.state import keys, newest_rows
from singerlake.rows.state.newest_rows import KeyStep
from singerlake.rows.state.shape import shape_of
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows

TABLE = TableName("tap", "t")
CODES = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CODES, max_size=3) | st.text(
    st.sampled_from("aé\U0001f600"), min_size=63, max_size=66
)
WHOLE = st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1) | st.just((1 << 53) + 1)
DECIMALS = st.sampled_from(["1.0", "1.00", "1", "-0.0", "0", "12345678901234567.01"])
NUMBERS = st.sampled_from(["0", "-0.0", "0.0", "1e0", "9007199254740992", "0.5"])
TIMES = st.sampled_from(
    ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1999-12-31T23:59:59"]
)
# By the kind of a key column: its schema, and its values as JSON.
KINDS: dict[str, tuple[dict[str, Any], st.SearchStrategy[str]]] = {
    "whole": ({"type": ["null", "integer"]}, WHOLE.map(str)),
    "text": ({"type": ["null", "string"]}, TEXTS.map(json.dumps)),
    "as it is": (
        {"type": ["null", "string"]},
        TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    ),
    "decimal": ({"type": ["null", "number"], "multipleOf": 0.01}, DECIMALS),
    "number": ({"type": ["null", "number"]}, NUMBERS),
    "time": ({"type": ["null", "string"], "format": "date-time"}, TIMES.map(json.dumps)),
    "day": (
        {"type": "string", "format": "date"},
        st.sampled_from(['"2026-01-01"', '"0001-01-01"']),
    ),
    "truth": ({"type": "boolean"}, st.sampled_from(["true", "false"])),
}
ALTERED: dict[str, Callable[[TableState], Overlay]] = {
    "another name": lambda now: changes.with_name(now, "a", "other"),
    "names exchanged": lambda now: changes.with_name(now, "a", "c"),
    "text": lambda now: changes.with_type(now, "a", None),
    "another key": lambda now: changes.with_key(now, ["c"]),
    "a longer key": lambda now: changes.with_key(now, ["c", "a"]),
}


def _or_null(schema: dict[str, Any], cells: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return cells | st.just("null") if "null" in schema["type"] else cells


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], list[str], list[list[str]]]:
    """Properties, a key, and the records of some transactions as JSON."""
    kinds = [draw(st.sampled_from([*KINDS])) for _ in range(2)]
    key = draw(st.sampled_from([["a"], ["a", "b"], ["b", "a"]]))
    properties = {name: KINDS[kind][0] for name, kind in zip("ab", kinds, strict=True)}
    cells = [_or_null(*KINDS[kind]) for kind in kinds]
    record = st.tuples(*cells, WHOLE).map(
        lambda row: f'{{"a": {row[0]}, "b": {row[1]}, "c": {row[2]}}}'
    )
    some = st.lists(st.lists(record, min_size=1, max_size=6), min_size=1, max_size=2)
    return {**properties, "c": {"type": "integer"}}, key, draw(some)


def reader(snapshot: TableState, lake: Lake, asked: AskedKeys | None) -> BlockReader:
    shape = shape_of(snapshot)
    found = BlockReader.of(
        lake.store, snapshot, [[*snapshot.blocks]], shape.key_columns, shape.key_names
    )
    found.asked = asked
    return found


def rows_by_id(
    snapshot: TableState, lake: Lake, asked: AskedKeys | None = None
) -> dict[str, set[Any]]:
    """Where the rows of each id are, of the blocks that are read; rows with a null have none."""
    columns = shape_of(snapshot).key_columns
    found: dict[str, set[Any]] = {}
    for batch in reader(snapshot, lake, asked).rows(snapshot.blocks):
        for row in batch.to_pylist():
            values = [row[f"c{n}"] for n in range(len(columns))]
            if None not in values:
                place = row["p0"], row["p1"]
                found.setdefault(row_ids.id_text(values, columns), set()).add(place)
    return found


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["as it was", *ALTERED]), st.integers(1, 3), st.data())
def test_no_block_that_holds_a_key_is_passed_over(
    table: tuple[dict[str, Any], list[str], list[list[str]]],
    altered: str,
    block_rows: int,
    data: st.DataObject,
) -> None:
    properties, key, transactions = table
    with TemporaryDirectory() as folder:
        lake = Lake.open(folder, create=True)
        for records in transactions:
            now = commit_rows(lake, str(TABLE), properties, key, [*records], block_rows)
        if altered in ALTERED:
            try:
                alter(lake.store, now, ALTERED[altered], AlterOptions())
            except SingerlakeError:  # not of such a column
                return
            if data.draw(st.booleans()):
                commit_rows(lake, str(TABLE), properties, key, [*transactions[0]], block_rows)
            now = lake.table(TABLE).snapshot()
        every = rows_by_id(now, lake)
        if not every:
            return
        ids = data.draw(st.lists(st.sampled_from(sorted(every)), min_size=1, max_size=2))
        columns = shape_of(now).key_columns
        values = row_ids.key_values(pa.array(ids, pa.string()), columns)
        asked = AskedKeys.of(columns, values, least=0)
        found = rows_by_id(now, lake, asked)
        assert {one: found.get(one) for one in ids} == {one: every[one] for one in ids}
        every_key = newest_keys(now, lake, values, None)
        assert newest_keys(now, lake, values, asked) == every_key
        assert newest_keys(now, lake, values, replace(asked, least=NEVER)) == every_key


def newest_keys(
    snapshot: TableState, lake: Lake, values: list[pa.Array], asked: AskedKeys | None
) -> list[str]:
    """What a change finds of some keys, and where."""
    columns = shape_of(snapshot).key_columns
    compared = keys.compared(values, columns)
    packed = packing.pack(pa.table(compared, [*aliases(len(columns))]))
    step = KeyStep(reader(snapshot, lake, asked), 1, [packed])
    (batch,) = step(iter([pa.record_batch({"id": [0]})]))
    # By their spelling: NaN is not NaN, and -0.0 is 0.0.
    return sorted(repr(row) for table in newest_rows.tables([batch]) for row in table.to_pylist())


def read(lake: Lake, asked: AskedKeys) -> list[int]:
    snapshot = lake.table(TABLE).snapshot()
    return [block.number for block, *_ in reader(snapshot, lake, asked).texts(snapshot.blocks)]


def asked_for(lake: Lake, *ids: str, least: int = 0) -> AskedKeys:
    columns = shape_of(lake.table(TABLE).snapshot()).key_columns
    values = row_ids.key_values(pa.array(ids, pa.string()), columns)
    return AskedKeys.of(columns, values, least)


def rising(lake: Lake) -> TableState:
    whole = {"id": {"type": "integer"}, "name": {"type": "string"}}
    rows: list[Any] = [{"id": number, "name": f"n{number:02}"} for number in range(20)]
    return commit_rows(lake, str(TABLE), whole, ["id"], rows, 5)


def test_only_blocks_that_may_hold_one_are_read(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    rising(lake)
    assert read(lake, asked_for(lake, "7")) == [2]
    assert read(lake, asked_for(lake, "0", "19")) == [1, 4]
    assert read(lake, asked_for(lake, "20", "-1")) == []
    assert read(lake, asked_for(lake, "19", "7", "7", least=NEVER)) == [2, 4]


@pytest.mark.parametrize(("least", "requests"), [(NEVER, 1), (1 << 16, 1), (0, 5)])
def test_blocks_that_are_read_at_once_take_no_request_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, requests: int
) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    rising(lake)
    asked = asked_for(lake, "7", least=least)
    made: list[str] = []
    get_range = LocalStore.get_range

    def counted(store: LocalStore, key: str, start: int, length: int) -> bytes:
        made.extend([key] if key.endswith(".singer.gz") else [])
        return get_range(store, key, start, length)

    monkeypatch.setattr(LocalStore, "get_range", counted)
    assert read(lake, asked) == [2]
    assert len(made) == requests


def test_many_keys_are_sorted_as_bounds_are(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    texts = ["", "Z", "a", "é", "\uffff", "\U0001f600", "\U0001f600b"]
    rows: list[Any] = [{"id": text} for text in texts]
    commit_rows(lake, str(TABLE), {"id": {"type": "string"}}, ["id"], rows, 1)
    for some in itertools.combinations(texts, 2):
        found = read(lake, asked_for(lake, *reversed(some)))
        assert found == [texts.index(one) + 1 for one in some]


@pytest.mark.parametrize("damage", ["no checksum", "damaged", "another block"])
def test_what_cannot_be_trusted_is_read(tmp_path: Path, damage: str) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    snapshot = rising(lake)
    block: Block = snapshot.blocks[0]
    path = Path(tmp_path / "lake" / TABLE.data(block.file))
    assert stored.key_bounds(lake.store, TABLE, block) == {"id": (0, 4)}
    if damage == "no checksum":
        block = msgspec.structs.replace(block, crc=None)
    elif damage == "another block":
        block = msgspec.structs.replace(block, bytes=block.bytes + 1)
    else:
        data = bytearray(path.read_bytes())
        data[data.index(b'{"id":[0,4]}') + 7] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
    assert stored.key_bounds(lake.store, TABLE, block) == {}
    path.unlink()
    assert stored.key_bounds(lake.store, TABLE, block) == {}


def test_a_text_longer_than_bounds_are_is_found(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    long = "\U0001f600" * 70
    rows: list[Any] = [{"id": long}, {"id": f"{long}!"}, {"id": "a"}]
    commit_rows(lake, str(TABLE), {"id": {"type": "string"}}, ["id"], rows, 1)
    # Cut, the two are alike.
    assert read(lake, asked_for(lake, long)) == [1, 2]
    assert read(lake, asked_for(lake, f"{long}!", least=NEVER)) == [1, 2]
