"""Keys that files have twice: all of them, with the first place and the last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.types import INTEGER, STRING, Columns, Kind, Type
from singerlake.rows.batches.problems import Problems
from singerlake.rows.batches.steps import Batches
from singerlake.rows.input.repeated_keys import FIRST, LAST, KeyParts, RepeatedKeys, place
from singerlake.rows.input.rows import (
    LINE,
    SOURCE,
    given_batch,
    given_schema,
    problems_batch,
)

COLUMNS: Columns = (("x", STRING), ("a", INTEGER), ("b", STRING), ("c", Type(Kind.NUMBER)))


def repeated(
    batches: list[list[tuple[Any, ...]]], indexes: Sequence[int], parts: int
) -> dict[tuple[Any, ...], tuple[Any, Any]]:
    """Places of keys that are there twice; each batch is one of a task, and a source."""
    schema = given_schema(COLUMNS, indexes)

    def rows(numbers: Batches) -> Batches:
        for batch in numbers:
            for source in batch.column("id").to_pylist():
                cells = [
                    pa.array([row[index] for row in batches[source]], schema.field(n).type)
                    for n, index in enumerate(indexes)
                ]
                count = len(batches[source])
                lines = pa.array(range(2, count + 2), pa.int64())
                sources = pa.repeat(pa.scalar(source, pa.int32()), count)
                yield given_batch(schema, cells, {LINE: lines, SOURCE: sources})
        yield problems_batch(schema, Problems(1))

    split = KeyParts(rows, COLUMNS, indexes, parts)
    sent: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for number in range(len(batches)):
        for batch in split(iter([pa.RecordBatch.from_pydict({"id": [number]})])):
            for row in range(batch.num_rows):
                sent[batch.column("part")[row].as_py()].append(batch.slice(row, 1))
    found = {}
    for part in sent.values():
        for batch in RepeatedKeys(len(indexes))(iter(part)):
            for row in batch.to_pylist():
                first, last = place(row.pop(FIRST)), place(row.pop(LAST))
                found[tuple(row.values())] = (first, last)
    return found


row = st.tuples(
    st.just("x"),
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from(["", "a", "é"]),
    st.none() | st.sampled_from([0.0, -0.0, 0.5]),
)


@settings(deadline=None)
@given(
    st.lists(st.lists(row, max_size=5), min_size=1, max_size=3),
    st.sampled_from([(1,), (2,), (3,), (1, 2), (1, 2, 3)]),
    st.integers(1, 3),
)
def test_they_are_found_whatever_the_parts(
    batches: list[list[tuple[Any, ...]]], indexes: tuple[int, ...], parts: int
) -> None:
    places = defaultdict(list)
    for source, rows in enumerate(batches):
        for line, cells in enumerate(rows, 2):
            key = tuple(cells[index] for index in indexes)
            if None not in key:
                places[key].append((source, line))
    wanted = {key: (found[0], found[-1]) for key, found in places.items() if len(found) > 1}
    assert repeated(batches, indexes, parts) == wanted


@pytest.mark.parametrize("parts", [1, 4])
def test_no_rows_have_no_key_twice(parts: int) -> None:
    assert repeated([[]], (1,), parts) == {}
    assert list(RepeatedKeys(1)(iter(()))) == []
