"""Cells that are their values' JSON already: never another text than their values would get."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.log import SchemaEntry
from singerlake.format.types import Type, columns_of
from singerlake.rows.columns import canonical_text
from singerlake.rows.input.values import cells, json_cells
from singerlake.rows.input.values.cell_summary import add_cells
from singerlake.rows.input.values.inference import Summary, cell_spec

DIGITS = st.text("0123456789", min_size=1, max_size=9)
LIKE = {
    "integers": st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(["0", "-1", "10"]),
    "numbers": st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 999), DIGITS)
    | st.sampled_from(["100", "-0.0", "0.10", "10.00", "1e3", "-7"]),
    "booleans": st.sampled_from(["true", "false", "True"]),
    "dates": st.dates().map(str),
    "instants": st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")),
    "finer instants": st.datetimes().map(lambda time: time.isoformat(" ", "milliseconds")),
    "strings": st.text(max_size=5) | st.sampled_from(['"', "\\", "a\nb", "\x01", "ź", ""]),
}


def typed(column: pa.Array) -> tuple[Type, int]:
    """The type that a column of texts has, and the kinds that were seen in it."""
    summary = Summary()
    add_cells(summary, column)
    schema = SchemaEntry({"type": "object", "properties": {"c": cell_spec(summary)}})
    return columns_of(schema)[0][1], summary.kinds


@settings(deadline=None, max_examples=30)
@pytest.mark.parametrize("like", LIKE)
@given(st.data())
def test_what_is_written_is_what_the_values_are_written_as(like: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.none() | LIKE[like], max_size=6), "texts")
    offset = data.draw(st.integers(0, 2), "offset")
    column = pa.array(texts, pa.string()).slice(offset)
    type_, kinds = typed(column)
    written = json_cells.spelled(column, type_, kinds)
    values, reasons = cells.read(column, type_)
    assert not reasons
    if written is not None:
        wanted = canonical_text.texts(values, type_).to_pylist()
        assert canonical_text.in_quotes(written).to_pylist() == wanted


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["1", None, "-20"], ["1", None, "-20"]),
        (["1.50", "10.00", "-0.0"], ["1.5", "10", "0"]),
        (["true", None], ["true", None]),
        (["2026-01-31"], ['"2026-01-31"']),
        (
            ["2026-01-31T10:00:00Z", None, "2026-02-01T10:00:00Z"],
            ['"2026-01-31T10:00:00.000000Z"', None, '"2026-02-01T10:00:00.000000Z"'],
        ),
        (["2026-01-31 10:00:00.5"], ['"2026-01-31T10:00:00.500000Z"']),
        (['say "a"', ""], ['"say \\"a\\""', '""']),
    ],
)
def test_usual_columns_take_the_short_way(texts: list[str | None], written: list[str]) -> None:
    column = pa.array(texts, pa.string())
    spelled = json_cells.spelled(column, *typed(column))
    assert spelled is not None
    assert canonical_text.in_quotes(spelled).to_pylist() == written


@pytest.mark.parametrize(
    "texts",
    [
        ["1", ""],  # an empty cell is null in a column of numbers, in quotes too
        ["1.50", "100"],  # zeros of an integer stay
        ["1e3", "1.5"],
        ["True"],
        ["2026-01-31T10:00:00+01:00"],
        ["2026-01-31T10:00Z"],
        ["2026-01-31T10:00:00Z", "2026-01-31"],
        ["2026-01-31T10:00:00Z", "2026-01-31 10:00:00Z"],
        ["12345678901234567890"],
    ],
)
def test_others_take_the_way_by_values(texts: list[str]) -> None:
    column = pa.array(texts, pa.string())
    assert json_cells.spelled(column, *typed(column)) is None
