"""What blocks say of their keys is what their lines have, however the lines came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.key_bounds import Bounds
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import blocks as stored
from singerlake.rows.blocks import bounded_keys
from target_singerlake import buffer
from tests.target.harness import TAP, activate, record, run, schema, state

WHOLE: dict[str, Any] = {"id": {"type": ["null", "integer"]}, "name": {"type": "string"}}


def bounds_of(lake: Path, stream: str = "s") -> list[Bounds]:
    """What the blocks of a table say; whatever that is, their lines have it."""
    opened = Lake.open(str(lake))
    name = TableName(TAP, stream)
    found = []
    for block in opened.table(name).snapshot().blocks:
        said = stored.key_bounds(opened.store, name, block)
        text = stored.read_block(opened.store, name, block)
        if said:
            assert said == bounded_keys.of_block(text)
        found.append(said)
    return found


def rows(*ids: int | None, **more: Any) -> list[bytes]:
    return [record("s", {"id": one, "name": f"n{one}"}, **more) for one in ids]


@pytest.mark.parametrize("config", [{}, {"validate_records": False}])
@pytest.mark.parametrize("time", [{}, {"time_extracted": "absent"}])
def test_blocks_that_are_cut_within_a_chunk(
    tmp_path: Path, config: dict[str, Any], time: dict[str, Any]
) -> None:
    lines = [schema("s", WHOLE, ["id"]), *rows(5, 4, 9, -3, 1 << 60, 2, 8, **time)]
    run(tmp_path / "lake", lines, block_rows=3, **config)
    expected = [{"id": (4, 9)}, {"id": (-3, 1 << 60)}, {"id": (8, 8)}]
    assert bounds_of(tmp_path / "lake") == expected


def test_keys_of_several_columns(tmp_path: Path) -> None:
    properties = {**WHOLE, "at": {"type": "string", "format": "date"}, "z": {"type": "integer"}}
    keys = ["name", "at", "id", "z"]
    records = [
        {"id": 5, "name": "é" * 70, "at": "2026-01-01", "z": 1},
        {"id": 7, "name": "\U0001f600", "at": "2026-01-02", "z": 0},
        {"id": 3, "name": "Z", "at": "2026-01-02", "z": 2},
    ]
    run(tmp_path / "lake", [schema("s", properties, keys), *(record("s", one) for one in records)])
    assert bounds_of(tmp_path / "lake") == [{"name": ("Z", "\U0001f600"), "id": (3, 7)}]


def test_rows_between_other_messages(tmp_path: Path) -> None:
    """Each line is then taken by itself, and the types see none of them."""
    lines = [schema("s", WHOLE, ["id"])]
    for number in range(20):
        lines += [*rows(number), state(number)]
    run(tmp_path / "lake", [*lines, activate("s", 3), *rows(30), activate("s", 4)])
    assert bounds_of(tmp_path / "lake") == [{"id": (0, 30)}]


def test_streams_that_are_mixed(tmp_path: Path) -> None:
    lines = [schema("s", WHOLE, ["id"]), schema("t", WHOLE, ["id"])]
    for number in range(50):
        lines += [*rows(number), record("t", {"id": -number, "name": "x"})]
    run(tmp_path / "lake", lines)
    assert bounds_of(tmp_path / "lake") == [{"id": (0, 49)}]
    assert bounds_of(tmp_path / "lake", "t") == [{"id": (-49, 0)}]


@pytest.mark.parametrize("odd", ["4.0", "4e0"])
def test_what_types_do_not_prove(tmp_path: Path, odd: str) -> None:
    last = record("s", {"id": 0, "name": "x"}).replace(b'"id": 0', b'"id": ' + odd.encode())
    run(tmp_path / "lake", [schema("s", WHOLE, ["id"]), *rows(1, 9), last, *rows(5)])
    assert bounds_of(tmp_path / "lake") == [{}]


def test_much_that_came_without_keys_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "KEYS_BYTES", 200)
    lines = [schema("s", WHOLE, ["id"]), *rows(1), state(1), *rows(2), state(2), *rows(3)]
    run(tmp_path / "lake", lines)
    assert bounds_of(tmp_path / "lake") == [{}]
    long = [schema("t", WHOLE, ["id"]), record("t", {"id": 7, "name": "x"}), state(1)]
    many = [record("t", {"id": one, "name": "x"}) for one in range(10, 60)]
    run(tmp_path / "lake", [*long, *many])
    assert bounds_of(tmp_path / "lake", "t") == [{"id": (7, 59)}]


@pytest.mark.parametrize("keys", [[], ["at"]])
def test_keys_without_bounds(tmp_path: Path, keys: list[str]) -> None:
    properties = {**WHOLE, "at": {"type": "string", "format": "date-time"}}
    one = {"id": 1, "name": "x", "at": "2026-01-01T00:00:00Z"}
    run(tmp_path / "lake", [schema("s", properties, keys), record("s", one)])
    assert bounds_of(tmp_path / "lake") == [{}]


def test_a_new_schema_begins_anew(tmp_path: Path) -> None:
    other = {**WHOLE, "more": {"type": "string"}}
    run(
        tmp_path / "lake",
        [
            schema("s", WHOLE, ["id"]),
            *rows(1, 2),
            schema("s", other, ["name"]),
            *(
                record("s", json.loads(f'{{"id": {n}, "name": "n{n}", "more": ""}}'))
                for n in (3, 4)
            ),
        ],
    )
    assert bounds_of(tmp_path / "lake") == [{"id": (1, 2)}, {"name": ("n3", "n4")}]
