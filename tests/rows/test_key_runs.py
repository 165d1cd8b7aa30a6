"""What is seen of keys in passing: that all differ is said only where it is so."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.types import INTEGER, STRING, Columns, Kind, Type
from singerlake.rows.input.key_runs import KeyRuns, all_differ

COLUMNS: Columns = (("a", INTEGER), ("b", STRING), ("c", Type(Kind.NUMBER)))


def seen(parts: list[list[tuple[Any, ...]]], keys: str, columns: Columns = COLUMNS) -> bool:
    """Whether the rows of some parts surely differ; each part comes in batches of two rows."""
    told = []
    for rows in parts:
        runs = KeyRuns(columns, keys)
        for at in range(0, len(rows) + 1, 2):
            some = list(zip(*rows[at : at + 2], strict=True)) or [()] * 3
            arrays = [
                pa.array(values, type_)
                for values, type_ in zip(some, (pa.int64(), pa.string(), pa.float64()), strict=True)
            ]
            runs.take(pa.RecordBatch.from_arrays(arrays, names=["c0", "c1", "c2"]))
        told.append(runs.encode())
    return all_differ(told)


few = st.tuples(
    st.none() | st.integers(0, 5), st.none() | st.sampled_from(["", "a", "é", "z"]), st.just(1.0)
)


@settings(deadline=None)
@given(st.lists(st.lists(few, max_size=4), max_size=3), st.sampled_from(["a", "b", "ab", "bc"]))
def test_keys_that_are_there_twice_are_never_said_to_differ(
    parts: list[list[tuple[Any, ...]]], keys: str
) -> None:
    rows = [tuple(row["abc".index(key)] for key in keys) for part in parts for row in part]
    null = any(value is None for row in rows for value in row)
    if seen(parts, keys):
        assert len(set(rows)) == len(rows)
        assert not (null and len(keys) == 1)


@pytest.mark.parametrize(
    ("values", "differ"),
    [
        ([[1, 2, 3], [4], [], [5, 9]], True),
        ([[1, 2, 3], [3, 4]], False),
        ([[1, 2], [0]], False),
        ([[1, 3, 2]], False),
        ([[1, 2, 2]], False),
        ([[1, None, 2]], False),
        ([[None], [2]], False),
        ([[2, 1], []], False),
        ([[-5, 0, 2**63 - 1]], True),
    ],
)
def test_a_key_that_rises_from_part_to_part(values: list[list[int | None]], differ: bool) -> None:
    texts = [[None if n is None else f"{n + 10:020}" for n in part] for part in values]
    parts = [
        [(n, text, 1.0) for n, text in zip(*both, strict=True)]
        for both in zip(values, texts, strict=True)
    ]
    assert [seen(parts, keys) for keys in ("a", "b", "ac", "c")] == [differ] * 3 + [False]
