"""Types of a file's columns: of all of its rows, in whatever order and however it is split."""

from __future__ import annotations

import itertools
import json
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.types import type_of
from singerlake.rows.input.values import cell_summary, json_summary
from singerlake.rows.input.values.cell_summary import add_cells
from singerlake.rows.input.values.inference import (
    MOST_MEMBERS,
    Summary,
    cell_spec,
    json_spec,
    merge,
    merge_all,
    why_text,
)

CELLS = [
    (["1", "-2", "0"], "int64"),
    (["1", None], "int64"),
    (["9223372036854775807", "-9223372036854775808"], "int64"),
    (["9223372036854775808"], "decimal(38,0)"),
    (["-" + "9" * 38], "decimal(38,0)"),
    (["9" * 39], "string"),
    (["9" * 5000], "string"),
    (["007"], "string"),
    (["2026-01-01", "2026-01-3x"], "string"),
    (["2026-01-01", "2026-02-30"], "string"),
    (["2026-01-01", "2026/01/01"], "string"),
    (["2026-01-01T10:00:00Z", "2026-01-01 10:00:00Z"], "timestamp"),
    (["2026-01-01T10:00:00Z", "2026-01-01T10:00:0:Z"], "string"),
    (["2026-01-01T10:00:00.1234560Z", "2026-01-01T10:00:00.1234567Z"], "string"),
    (["-0"], "string"),
    (["1", "-0"], "string"),
    (["-0.0"], "double"),
    (["0", "10"], "int64"),
    (["0", "00"], "string"),
    (["-1", "-07"], "string"),
    (["1/2"], "string"),
    (["1-2"], "string"),
    (["1", "007"], "string"),
    (["1e5x"], "string"),
    (["0x1f"], "string"),
    (["+5"], "string"),
    ([".5"], "string"),
    (["5."], "string"),
    ([" 7"], "string"),
    (["7\n"], "string"),
    (["1_000"], "string"),
    (["1,5"], "string"),
    (["٣"], "string"),
    (["nan"], "string"),
    (["Infinity"], "string"),
    (["1.5", "2"], "double"),
    (["1.10"], "double"),
    (["1e5", "-2.5E-3"], "double"),
    (["1e400"], "string"),
    (["1e-400"], "string"),
    (["1" + "0" * 199 + "e279"], "string"),
    (["0." + "0" * 190 + "1e-270"], "string"),
    (["1" + "0" * 20 + "e279", "0.0000000001e-279"], "double"),
    (["123456789012.345"], "double"),
    (["1234567890123.456"], "double"),
    (["18292498239.824", "0.30000000000000004", "1e-07", "-0.0", "5e-324"], "double"),
    (["10.5", "9.25", "123456789012.12344", "2.0000000000000005e-05", "7e-30"], "double"),
    (["10.5", "123456789012.12345", "2.0000000000000004e-05", "7e-30"], "string"),
    (["1.7976931348623157e+308", "2.2250738585072014e-308"], "double"),
    (["0.1234567890123456789"], "decimal(38,19)"),
    (["0.30000000000000004", "0.300000000000000041"], "decimal(38,18)"),
    (["123456789012.3456", "1.1000"], "decimal(38,4)"),
    (["123456789012.3456", "1.1000", "1e5"], "double"),
    (["1.10", "2.50"], "double"),
    (["9007199254740992", "0.5"], "double"),
    (["9007199254740993", "0.5"], "decimal(38,1)"),
    (["12345678901234568", "0.5"], "decimal(38,1)"),
    (["1234567890123456", "0.50"], "decimal(38,2)"),
    (["5e-325"], "string"),
    (["1.8e308"], "string"),
    (["0.5", "12345678901234567"], "decimal(38,1)"),
    (["0", "0." + "1" * 38], "decimal(38,38)"),
    (["1", "0." + "1" * 38], "string"),
    (["1e5", "1234567890123.456"], "double"),
    (["1e5", "12345678901234567.8"], "string"),
    (["true", "false"], "boolean"),
    (["True", "FALSE"], "boolean"),
    (["tRUE"], "string"),
    (["yes"], "string"),
    (["true", "1"], "string"),
    (["2026-02-28", "0001-01-01"], "date"),
    (["2026-02-30"], "string"),
    (["0000-01-01"], "string"),
    (["2026-01-01", "2026-01-01T10:00:00Z"], "timestamp"),
    (["2026-01-01 10:00:00.123456"], "timestamp"),
    (["2026-01-01T10:00+02:00"], "timestamp"),
    (["2026-01-01T10:00:00.1234560Z"], "timestamp"),
    (["2026-01-01T10:00:00.1234567Z"], "string"),
    (["2026-01-01T24:00:00"], "string"),
    (["2026-01-01T10"], "string"),
    (["2026-01-01", "1"], "string"),
    ([""], "string"),
    (["", "1"], "int64"),
    ([None, None], "string"),
    ([], "string"),
]


def of_cells(cells: list[str | None]) -> Summary:
    summary = Summary()
    add_cells(summary, pa.array(cells, pa.string()))
    return summary


def of_json(texts: list[str]) -> Summary:
    summary = Summary()
    for text in texts:
        json_summary.add_value(summary, json_summary.parse(text))
    return summary


@pytest.mark.parametrize(("cells", "type_"), CELLS, ids=lambda one: str(one)[:40])
def test_the_type_of_text_cells(cells: list[str | None], type_: str) -> None:
    assert str(type_of(cell_spec(of_cells(cells)))) == type_


def test_inferred_types_match_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "internals" / "odd-values.md").read_text("utf-8")
    table = page.split("<!-- cells:")[1].split("<!-- end -->")[0]
    rows = re.findall(r"^\| (`.*`) \| `(.*)` \|$", table, re.M)
    assert len(rows) > 10
    for cells, type_ in rows:
        summary = of_cells(re.findall("`([^`]+)`", cells))
        assert str(type_of(cell_spec(summary))) == type_, cells


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "null"], "int64"),
        (["9223372036854775808"], "decimal(38,0)"),
        (["9" * 39], "text"),
        (["1.0"], "double"),
        (["1.10", "1234567890123456789"], "decimal(38,2)"),
        (["0.30000000000000004", "1e-07", "5e-324", "2.0000000000000005e-05"], "double"),
        (["123456789012.3456", "1.1000"], "decimal(38,4)"),
        (["0.1234567890123456789"], "decimal(38,19)"),
        (["9007199254740993", "0.5"], "decimal(38,1)"),
        (["1e400"], "text"),
        (["1" + "0" * 190 + "e270"], "text"),
        (['"1"'], "string"),
        (['"2026-01-01"'], "string"),
        (['"a"', "1"], "text"),
        (["true", "0"], "text"),
        (["[]", "null"], "text"),
        (["[1, null]", "[]"], "list<int64>"),
        (["[1]", '["a"]'], "list<text>"),
        (["{}"], "text"),
        (['{"a": 1}', '{"b": [1.5]}'], "struct<a: int64, b: list<double>>"),
        (['{"b": 1, "a": 1}', '{"a": {}}'], "struct<a: text, b: int64>"),
        (['{"a": 1}', "1"], "text"),
    ],
)
def test_the_type_of_json_values(texts: list[str], type_: str) -> None:
    assert str(type_of(json_spec(of_json(texts)))) == type_


def test_objects_with_ever_new_names_are_kept_as_json() -> None:
    many = {f"n{n}": n for n in range(MOST_MEMBERS + 1)}
    halves = [{"n0": 1}, dict(list(many.items())[1:])]
    for parts in ([many], halves, halves[::-1]):
        summed = merge_all(of_json([json.dumps(part)]) for part in parts)
        assert str(type_of(json_spec(summed))) == "text"
    assert str(type_of(json_spec(of_json([json.dumps(halves[0])])))) == "struct<n0: int64>"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([c for cells, _ in CELLS for c in cells]), max_size=8), st.data())
def test_any_order_and_any_split_of_cells_gives_one_schema(
    cells: list[str | None], data: st.DataObject
) -> None:
    whole = of_cells(cells)
    shuffled = data.draw(st.permutations(cells))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(cells)), max_size=3)))
    bounds = [0, *cuts, len(cells)]
    parts = [of_cells(shuffled[a:b]) for a, b in itertools.pairwise(bounds)]
    parts = [msgspec.msgpack.decode(msgspec.msgpack.encode(p), type=Summary) for p in parts]
    summed = merge_all(data.draw(st.permutations(parts)))
    assert cell_spec(summed) == cell_spec(whole)
    for one in ("nulls", "empty", "values"):
        assert getattr(summed, one) == getattr(whole, one)
    assert whole.empty == cells.count("")


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        ["null", "1", "1.5", "true", '"a"', "1e5", "9" * 20, "9" * 40, "0.1234567890123456"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda members: "{" + ",".join(f'"{n}":{v}' for n, v in members.items()) + "}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, max_size=6), st.randoms(use_true_random=False))
def test_any_order_and_any_split_of_json_gives_one_schema(
    texts: list[str], chance: random.Random
) -> None:
    whole = json_spec(of_json(texts))
    shuffled = chance.sample(texts, len(texts))
    cut = chance.randint(0, len(texts))
    one, other = of_json(shuffled[:cut]), of_json(shuffled[cut:])
    assert json_spec(merge(one, other)) == whole
    assert json_spec(merge(other, one)) == whole


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.decimals(allow_nan=False, allow_infinity=False).map(lambda d: format(d, "f")),
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.integers().map(str),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_number_loses_a_digit(cells: list[str]) -> None:
    type_ = type_of(cell_spec(of_cells(cells)))
    for cell in cells:
        if type_.kind.value == "double":
            assert Decimal(repr(float(cell))) == Decimal(cell)
        elif type_.kind.value == "decimal":
            exact = Decimal(cell)
            assert -exact.normalize().as_tuple().exponent <= type_.scale  # type: ignore[operator]
            assert abs(exact) < 10 ** (38 - type_.scale)
        elif type_.kind.value == "int64":
            assert str(int(cell)) == cell.replace("-0", "0") or cell == str(int(cell))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.booleans(),
)
def test_floats_as_python_prints_them_are_a_column_of_doubles(
    numbers: list[float], as_json: bool
) -> None:
    texts = [repr(number) for number in numbers]
    spec = json_spec(of_json(texts)) if as_json else cell_spec(of_cells(list(texts)))
    assert str(type_of(spec)) == "double"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([["nan", "inf", "-inf", "1.5"]], "'-inf' is not a number"),
        ([["nan", "1.5", "2.5", "inf"]], "'inf' is not a number"),
        ([["1.5", "nan"]], "'nan' is not a number"),
        ([["1.5"], ["1", "NA", "nan"]], "'NA' is not a number"),
        ([["1.5"] * 1100 + ["n/a"]], "'n/a' is not a number"),
        ([["1", "007"]], "'007' is not a number"),
        ([["4,25", "3,5", "x"]], "'3,5' is not a number"),
        ([["TRUE", "NA"], [None]], "'NA' is not a boolean"),
        ([["NA"], ["2024-03-01", "NA"]], None),  # the first part may be any text
        ([["NaT", "2024-03-01", "2024-03-01 10:00:00"]], "'NaT' is not a date or time"),
        ([["1e5", "12345678901234567.8"]], "a double would change 12345678901234567.8"),
        ([["a", "1"], ["b"]], None),
        ([["2026-01-01"], ["1", "x"]], None),
        ([["true"], ["1", "2"]], None),
        ([["2026-02-30"]], None),
        ([["1", ""], ["2"]], None),
        ([[None]], None),
    ],
)
def test_summary_says_why_a_column_of_other_values_is_a_string(
    parts: list[list[str | None]], why: str | None
) -> None:
    for some in (parts, parts[::-1]):
        found = why_text(merge_all(of_cells(part) for part in some))
        assert (why is None and found is None) or (why and found and why in found)


DIGITS = st.text("0123456789", max_size=9)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds("{}{}.{}".format, st.sampled_from(["", "-", "0", "-0"]), DIGITS, DIGITS)
        | st.sampled_from(["1", "1.2.3", "1/2", "-.5", "1.-5", "", ".", "--1.5", "0.0"]),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 1),
)
def test_decimals_are_the_same_with_and_without_patterns(cells: list[str], offset: int) -> None:
    column = pa.array(cells, pa.string()).slice(offset)
    quick, slow = Summary(), Summary()
    add_cells(quick, column)
    with mock.patch.object(cell_summary, "_all_plain_decimals", lambda *_: False):
        add_cells(slow, column)
    assert quick == slow
