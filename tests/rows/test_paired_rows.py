"""Cells that differ and weights of rows, against plain Python; and pairs that meet in a part."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.format.types import INTEGER, STRING
from singerlake.rows.batches.row_columns import MISFITS, TYPES
from singerlake.rows.batches.steps import Pipeline
from singerlake.rows.blocks import positions
from singerlake.rows.columns.differences import differ
from singerlake.rows.columns.weights import ITEM_BYTES, weights
from singerlake.rows.state.paired_rows import PairStep, PartStep
from singerlake.rows.state.rows_at import IS_AFTER, PAIR

_NUMBERS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])
_TEXTS = st.sampled_from([None, "", "a", "ä"])
_OBJECTS = st.none() | st.fixed_dictionaries({"n": _NUMBERS, "s": st.none() | st.lists(_TEXTS)})
_LISTS = st.none() | st.lists(_OBJECTS, max_size=3)
_OBJECT = pa.struct([("n", pa.float64()), ("s", pa.list_(pa.string()))])


def plain(value: Any) -> Any:
    """A value that equals another just where the two do not differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def weight(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list):
        return sum(ITEM_BYTES + weight(one) for one in value)
    return sum(map(weight, value.values())) if isinstance(value, dict) else 0


@pytest.mark.parametrize(
    ("values", "type_"),
    [(_NUMBERS, pa.float64()), (_TEXTS, pa.string()), (_LISTS, pa.list_(_OBJECT))],
    ids=["numbers", "texts", "lists of objects"],
)
@settings(deadline=None)
@given(data=st.data())
def test_differ_and_weights_agree_with_plain_python(
    data: st.DataObject, values: st.SearchStrategy[Any], type_: pa.DataType
) -> None:
    pairs = data.draw(st.lists(st.tuples(values, values), max_size=8))
    # As parts of longer columns, whose insides begin elsewhere.
    left, right = (
        pa.array([None, *(pair[side] for pair in pairs)], type_).slice(1) for side in (0, 1)
    )
    assert differ(left, right).tolist() == [plain(one) != plain(other) for one, other in pairs]
    assert weights(left).tolist() == [weight(one) for one, _ in pairs]


def rows(*given_rows: tuple[int, str | None, int, bool], misfit: str | None = None) -> pa.Table:
    """Rows as ``RowsAt`` gives them: id, text, ordinal of the pair, whether of the second state."""
    ids, texts, ordinals, after = zip(*given_rows, strict=True)
    told = [None if misfit is None else [(1, misfit)]] * len(ids)
    return pa.table(
        {
            "c0": pa.array(ids, pa.int64()),
            "c1": pa.array(texts, pa.string()),
            MISFITS: pa.array(told, TYPES[MISFITS]),
            PAIR: pa.array([positions.code(1, one) for one in ordinals], pa.int64()),
            IS_AFTER: pa.array(after, pa.bool_()),
        }
    )


def step(*, keys: tuple[int, ...] = (0,), reads_misfits: bool = False) -> PairStep:
    columns = (("id", INTEGER), ("a.b", STRING))
    return PairStep(columns, keys, TableName("tap", "s"), reads_misfits)


def paired(table: pa.Table, *steps: Any) -> list[dict[str, Any]]:
    found = Pipeline(steps)(iter(table.to_batches(max_chunksize=2)))
    return pa.Table.from_batches(found, steps[-1].schema).sort_by(PAIR).to_pylist()


def test_rows_of_a_pair_meet_whatever_part_and_batch_they_are_in() -> None:
    many = rows(
        *((n, f"{side} {n // 2 * side}", n, side == 1) for side in (0, 1) for n in range(9))
    )
    whole = paired(many, step())
    assert [one["change"] for one in whole] == ["changed"] * 9
    parts = sorted(
        PartStep(3)(iter(many.to_batches(max_chunksize=2))), key=lambda one: one["part"][0].as_py()
    )
    assert len({one["part"][0].as_py() for one in parts}) == 3
    found = pa.Table.from_batches(step()(iter(parts)), step().schema)
    assert found.sort_by(PAIR).to_pylist() == whole


def test_each_kind_of_change_with_and_without_a_key() -> None:
    table = rows(
        (1, "a", 1, False),
        (1, "b", 1, True),
        (2, "x", 2, False),
        (3, "y", 3, True),
        (4, None, 4, False),
        (4, None, 4, True),
    )
    found = paired(table, step())
    assert [(one["change"], one["changed"], one["key"]["id"]) for one in found] == [
        ("changed", ["a.b"], 1),
        ("removed", None, 2),
        ("added", None, 3),
        ("respelled", [], 4),
    ]
    assert [one["weight"] for one in found] == [2, 1, 1, 0]
    assert (found[1]["before"], found[1]["after"]) == ({"id": 2, "a.b": "x"}, None)
    assert [one["row_id"] for one in paired(table, step(keys=()))] == [
        f"1:{n}" for n in (1, 2, 3, 4)
    ]


def test_a_misfit_of_one_side_is_told_with_the_row_and_of_both_is_an_error() -> None:
    (added,) = paired(rows((1, None, 1, True), misfit="'a.b' is 5"), step())
    assert added["change"] == "added"
    assert added["misfit"].startswith("'a.b' is 5; ")
    both = rows((1, None, 1, False), (1, None, 1, True), misfit="'a.b' is 5")
    with pytest.raises(DamagedError, match="'a.b' is 5; .*--on-type-mismatch null"):
        paired(both, step())
    assert [one["misfit"] for one in paired(both, step(reads_misfits=True))] == [None]
