"""Cells of a file: what is printed is read again as the same, and nothing is read lightly."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.format import values
from singerlake.format.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    NUMBER,
    STRING,
    TEXT,
    TIMESTAMP,
    WHOLE,
    Kind,
    Type,
    exact,
)
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.values import cells
from singerlake_cli import results

MONEY = Type(Kind.DECIMAL, scale=2)
TINY = Type(Kind.DECIMAL, scale=30)
NESTED = Type(
    Kind.STRUCT,
    fields=(
        ("n", INTEGER),
        ("x", NUMBER),
        ("m", MONEY),
        ("s", STRING),
        ("t", TIMESTAMP),
        ("d", DATE),
        ("b", BOOLEAN),
        ("j", TEXT),
        ("l", Type(Kind.LIST, item=Type(Kind.STRUCT, fields=(("a", STRING),)))),
    ),
)
ROWS = Type(Kind.LIST, item=MONEY)


def _decimals(scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-{scale}"))


INSTANTS = st.datetimes(timezones=st.just(timezone.utc))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (INTEGER, st.integers(-(2**63), 2**63 - 1)),
    (NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    (WHOLE, _decimals(0)),
    (MONEY, _decimals(2)),
    (TINY, _decimals(30)),
    (STRING, TEXTS),
    (TEXT, TEXTS),
    (DATE, st.dates()),
    (TIMESTAMP, INSTANTS),
    (BOOLEAN, st.booleans()),
    (ROWS, st.lists(st.none() | _decimals(2), max_size=3)),
    (
        NESTED,
        st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-(2**63), 2**63 - 1),
                "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "m": st.none() | _decimals(2),
                "s": st.none() | TEXTS,
                "t": st.none() | INSTANTS,
                "d": st.none() | st.dates(),
                "b": st.none() | st.booleans(),
                "j": st.none() | TEXTS,
                "l": st.none() | st.lists(st.fixed_dictionaries({"a": TEXTS}), max_size=2),
            }
        ),
    ),
]


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=str)
def test_what_a_query_prints_is_read_as_the_same(
    type_: Type, values: st.SearchStrategy[Any]
) -> None:
    @given(st.lists(st.none() | values, max_size=4))
    @settings(max_examples=80, deadline=None)
    def check(column: list[Any]) -> None:
        printed = [results.text(value) for value in column]
        array, reasons = cells.read(pa.array(printed, pa.string()), type_)
        expected = pa.array(column, arrow_type(type_))
        assert reasons == {}
        assert array.equals(expected) or str(array) == str(expected)

    check()


NUMBERS = ["007", "+7", "-7", "7.", ".5", "-.5", ".", "-", "", "1e3", "1E3", "1e-3", "0x10", "1_0"]
NUMBERS += [" 7", "7 ", "nan", "inf", "1e999", "1e-999", "1.005", "1.50", "1.500", "2.2e-311", "٣"]
NUMBERS += [str(2**63), str(-(2**63)), "9" * 38, "9" * 36, "9" * 37, "1" + "0" * 40, "-0", "null"]
TIMES = [
    "2020-01-01",
    "2020-01-01T10",
    "2020-01-01T10Z",
    "2020-01-01 10:00",
    "2020-01-01T10:00:00Z",
]
TIMES += ["2020-01-01 10:00:00.5+05:30", "2020-01-01 10:00:00+00", "2016-12-31T23:59:60Z", "null"]
TIMES += ["2020-01-01T10:00:00.123456789Z", "2020-01-01T10:00:00.123456000Z", "0000-01-01", "x"]
TIMES += ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2020-02-30", "1582-10-10", ""]
TIMES += [" 2020-01-01", "2020-1-1", "20200101", "2020-01-01t10:00:00z", "0001-01-01", "1e3"]
TRUTHS = [
    "true",
    "false",
    "TRUE",
    "False",
    "t",
    "F",
    "1",
    "0",
    "yes",
    "NO",
    "y",
    "n",
    "",
    "2",
    "on",
]
ODD = {INTEGER: NUMBERS, NUMBER: NUMBERS, MONEY: NUMBERS, TINY: NUMBERS, WHOLE: NUMBERS}
ODD |= {DATE: TIMES, TIMESTAMP: TIMES, BOOLEAN: TRUTHS}


@pytest.mark.parametrize(("type_", "texts"), ODD.items(), ids=str)
def test_arrow_never_takes_what_the_exact_way_refuses(type_: Type, texts: list[str]) -> None:
    """Each odd cell alone, so that Arrow has its say, and all among many."""
    read_cell = cells.reader(type_)
    plain = {INTEGER: "1", NUMBER: "1", DATE: "2020-01-01", BOOLEAN: "true"}
    usual = plain.get(type_, "2020-01-01T00:00:00Z" if type_ is TIMESTAMP else "1")
    expected: list[Any] = []
    for text in texts:
        try:
            expected.append(read_cell(text) if text else None)
        except ValueError:
            expected.append("refused")
    alone = [cells.read(pa.array([text]), type_) for text in texts]
    found = ["refused" if reasons else array[0].as_py() for array, reasons in alone]
    assert found == expected
    among = [one for text in texts for one in [text, *[usual] * 99]]
    array, reasons = cells.read(pa.array(among), type_)
    listed = array.to_pylist()
    assert [
        "refused" if n * 100 in reasons else listed[n * 100] for n in range(len(texts))
    ] == found
    assert all(listed[n] == read_cell(usual) for n in range(len(among)) if n % 100)


DIGIT_RUNS = st.text("019", max_size=40)


@pytest.mark.usefixtures("many_cases")
@given(
    st.text("0123456789+-.eE xXnaif_", max_size=8)
    | st.tuples(st.sampled_from(["", "-"]), DIGIT_RUNS, DIGIT_RUNS).map(
        lambda p: "{}{}.{}".format(*p)
    ),
    st.sampled_from([INTEGER, NUMBER, WHOLE, MONEY, TINY]),
)
@settings(max_examples=1500, deadline=None)
@example("0x1F", INTEGER)
@example("1.e5", NUMBER)
@example(str(2**63), TINY)
def test_numbers_are_read_the_same_both_ways(text: str, type_: Type) -> None:
    array, reasons = cells.read(pa.array([text]), type_)
    try:
        expected = cells.reader(type_)(text) if text else None
    except ValueError:
        assert reasons
        return
    assert not reasons
    assert array.equals(pa.array([expected], arrow_type(type_)))


def test_nothing_is_cut_or_rounded() -> None:
    def refused(text: str, type_: Type) -> str:
        return cells.read(pa.array([text]), type_)[1][0]

    assert refused("1.5", INTEGER) == "is not a valid integer"
    assert refused(str(2**63), INTEGER) == "is not a valid 64-bit integer"
    assert refused("1.005", MONEY) == "is not a valid decimal of at most 2 digits after the point"
    assert refused("1e36", MONEY) == "is not a valid decimal of at most 36 digits before the point"
    assert refused("12,5", NUMBER) == "is not a valid number"
    assert refused("1e999", NUMBER) == "is not a valid number that a double can hold"
    fine = "is not a valid timestamp of at most six digits after the second"
    assert refused("2020-01-01T10:00:00.1234567Z", TIMESTAMP) == fine
    assert refused("2020-01-01T10:00:00Z", DATE) == "is not a valid date"
    assert refused('{"n": 1, "zzz": 2}', NESTED).endswith("it has no member 'zzz'")
    assert refused('[1, "x"]', ROWS).startswith("is not a valid list<decimal(38,2)>: ")
    assert refused("[1,", ROWS).startswith("is not valid JSON: ")
    assert refused(r'["\ud800"]', ROWS).endswith("a lone surrogate")
    assert refused("7", ROWS).startswith("is not a valid list<decimal(38,2)>: array")


def test_spellings_that_people_and_other_programs_use() -> None:
    def one(text: str, type_: Type) -> Any:
        array, reasons = cells.read(pa.array([text]), type_)
        assert not reasons
        return array[0].as_py()

    assert [one(text, INTEGER) for text in ("007", "+7", "7.0", "7e0")] == [7] * 4
    assert one(".5", NUMBER) == one("5e-1", NUMBER) == 0.5
    assert math.copysign(1, one("-0", NUMBER)) == -1
    assert [one(text, BOOLEAN) for text in ("TRUE", "t", "1", "No")] == [True, True, True, False]
    ten = datetime(2020, 1, 1, 10, tzinfo=timezone.utc)
    for text in ("2020-01-01 10:00", "2020-01-01 10:00:00+00", "2020-01-01T15:30+05:30"):
        assert one(text, TIMESTAMP) == ten
    assert one("2020-01-01T00:00:00Z", DATE) == date(2020, 1, 1)


def test_an_empty_cell_is_null_but_in_a_column_of_text() -> None:
    for type_ in (INTEGER, NUMBER, MONEY, DATE, TIMESTAMP, BOOLEAN, ROWS, NESTED):
        assert cells.read(pa.array(["", None]), type_)[0].null_count == 2
    for type_ in (STRING, TEXT):
        assert cells.read(pa.array(["", None]), type_)[0].to_pylist() == ["", None]


def test_a_key_that_was_made_text_is_one_text() -> None:
    key = Type(Kind.TEXT, own=INTEGER)
    array, reasons = cells.read(pa.array(["1", "1.0", "01", "x", None]), key)
    assert array.to_pylist() == ["1", "1", "1", "x", None]
    assert reasons == {}


@pytest.mark.parametrize("text", ["1e999999999", "-1E+1000000", "+2.5e9999999"])
@pytest.mark.parametrize(
    ("type_", "kind"),
    [(NUMBER, "number"), (exact(NUMBER), "number"), (INTEGER, "integer"), (MONEY, "decimal")],
)
def test_number_with_a_long_exponent_is_refused_for_its_exponent(
    text: str, type_: Type, kind: str
) -> None:
    said = f"{kind} whose exponent has at most six digits"
    array, reasons = cells.read(pa.array([text]), type_)
    assert (array.null_count, reasons) == (1, {0: f"is not a valid {said}"})
    if text[0] != "+":
        assert values.misfit(text.encode(), values.converter(type_), "x") == (
            f"the value {text} of column 'x' is not a valid {said}"
        )
    for wrong in ("1e", "x1e9999999", "1e9999999x"):
        assert cells.read(pa.array([wrong]), type_)[1] == {0: f"is not a valid {kind}"}
