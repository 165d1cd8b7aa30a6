from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.format.types import columns_of
from singerlake.rows.batches.row_columns import MISFITS
from singerlake.rows.blocks import decoding, positions
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.state import keys
from tests.build import activate_line, record_line, schema_line
from tests.rows.test_decoding import PROPERTIES, columns, one_column


def spec(names: list[str], count: int, activations: bool = False) -> BlockSpec:
    block = Block(7, "", 0, 0, count, 0, activations=[(0, 3)] if activations else [])
    wanted = columns({name: PROPERTIES[name] for name in names})
    return BlockSpec("block 7 of tap.s", block, columns(PROPERTIES), wanted, frozenset(names))


def text_of(lines: list[bytes]) -> bytes:
    return schema_line("s", PROPERTIES, []) + b"".join(lines)


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=400, deadline=None)
@given(one_column())
@example(("i", [record_line("s", '{"i": 1, "i": 2}')]))
@example(("i", [record_line("s", '{"i": 1.0}')]))
@example(("i", [record_line("s", '{"i": 9223372036854775808}')]))
@example(("s", [b'{"type": "RECORD", "record": {"s": "\xff"}}\n']))
@example(("s", [b'{"type": "RECORD", "record": {"s": "\\ud800"}}\n']))
@example(("s", [b'{"type": "RECORD", "record": {"s": "a"}}{"type": "RECORD", "record": {}}\n']))
@example(("s", [b'{"type": "RECORD", "record": null}\n']))
@example(("s", [b'{"type": "STATE", "record": {"s": "a"}}\n']))
def test_keys_alone_are_what_whole_rows_say(case: tuple[str, list[bytes]]) -> None:
    name, lines = case
    count = sum(b'"RECORD"' in line for line in lines)
    wanted = spec([name], count, activations=any(b'"ACTIVATE' in line for line in lines))
    try:
        whole = decoding.read(text_of(lines), wanted)
    except DamagedError:
        with pytest.raises(DamagedError):
            keys.read(text_of(lines), wanted)
        return
    found = keys.read(text_of(lines), wanted)
    expected = keys.table([whole.column(0)], wanted.target, positions.of_block(b"", wanted.block))
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
    assert found.schema == expected.schema


def test_the_newest_row_of_each_key_wins() -> None:
    values = [(1, "a"), (None, "a"), (1, None), (None, "a"), (1, "a"), (1, "b")]
    lines = [record_line("s", {"i": i, "s": s}) for i, s in values]
    found = keys.newest([keys.read(text_of(lines), spec(["i", "s"], len(lines)))], apart=True)
    newest = {(row["c0"], row["c1"]): row["at"] for row in found.to_pylist()}
    assert newest == {
        key: positions.code(7, ordinal)
        for key, ordinal in {(None, "a"): 3, (1, None): 2, (1, "a"): 4, (1, "b"): 5}.items()
    }


@pytest.mark.parametrize(
    ("name", "one", "same", "other"),
    [
        ("n", "0.0", "-0.0", "0.5"),
        ("n", "1.5", "15e-1", "1.25"),
        ("d", "1.5", "1.50", "1.25"),
        ("t", '"2020-01-01T00:00:00Z"', '"2020-01-01T01:00:00+01:00"', '"2020-01-01T01:00:00Z"'),
        ("day", '"2020-01-01"', '"2020-01-01"', '"2020-01-02"'),
        ("b", "true", "true", "false"),
        ("o", '{"x": 1, "t": null}', '{"x": 1, "more": 2}', '{"x": 2}'),
        ("l", '["2020-01-01"]', '["2020-01-01"]', '["2020-01-01", null]'),
        ("s", '"a"', '"\\u0061"', '"b"'),
    ],
)
def test_equal_keys_are_equal_however_they_are_spelled(
    name: str, one: str, same: str, other: str
) -> None:
    lines = [record_line("s", f'{{"{name}": {value}}}') for value in (one, other, same)]
    tables = [
        keys.read(text_of([line]), spec([name], 1)).set_column(
            1, "at", pa.array([place], pa.int64())
        )
        for place, line in enumerate(lines)
    ]
    assert sorted(keys.newest(tables, apart=True).column("at").to_pylist()) == [1, 2]
    parts = [
        [part for part, piece in enumerate(keys.split_by_key(table, 64)) if len(piece)]
        for table in tables
    ]
    assert parts[0] == parts[2]


@pytest.mark.parametrize("names", [["i"], ["s"], ["i", "s"], ["t", "n", "b"]])
def test_keys_are_shared_out_evenly_and_none_is_lost(names: list[str]) -> None:
    record: dict[str, Any] = {"s": "x", "n": 0, "b": True}
    lines = [
        record_line(
            "s",
            {**record, "i": n, "s": f"key {n}", "n": n / 4, "t": f"2020-01-01T00:00:{n % 60:02d}Z"},
        )
        for n in range(2000)
    ]
    found = keys.read(text_of(lines), spec(names, len(lines)))
    pieces = keys.split_by_key(found, 8)
    assert sorted(at for piece in pieces for at in piece.column("at").to_pylist()) == sorted(
        found.column("at").to_pylist()
    )
    assert all(150 < len(piece) < 350 for piece in pieces)


def test_some_rows_of_a_block_are_what_they_are_in_the_whole_block() -> None:
    values: list[dict[str, Any]] = [{"i": n, "s": f"s{n}", "n": n / 2} for n in range(50)]
    lines = [line for n, v in enumerate(values) for line in (record_line("s", v, n % 3),)]
    lines.insert(10, activate_line("s", 3))
    wanted = spec(["i", "n", "s"], 50, activations=True)
    whole = decoding.read(text_of(lines), wanted)
    for picked in (
        [0],
        [9, 10, 11, 49],
        list(range(0, 50, 2)),
        list(range(1, 50)),
        list(range(50)),
    ):
        some = decoding.read_some(text_of(lines), wanted, np.array(picked))
        assert some.equals(whole.take(pa.array(picked)))


def test_a_misfit_among_some_rows_is_called_by_its_place_in_the_block() -> None:
    lines = [record_line("s", json.dumps({"i": n if n != 40 else "x"})) for n in range(50)]
    wanted = BlockSpec(
        "block 7 of tap.s",
        Block(7, "", 0, 0, 50, 0),
        columns_of_all(),
        columns_of_all(),
    )
    some = decoding.read_some(text_of(lines), wanted, np.array([3, 40]))
    assert some.column("c0").to_pylist() == [3, None]
    assert "row 40 of block 7" in some.column(MISFITS).to_pylist()[1][0][1]


def columns_of_all() -> Any:
    from singerlake.format.log import SchemaEntry

    return columns_of(SchemaEntry({"properties": {"i": PROPERTIES["i"]}}))
