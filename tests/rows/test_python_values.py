"""Values of Python as JSON: all their digits, or a reason why not."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from singerlake.errors import UsageError
from singerlake.format.types import Kind, Type, type_of
from singerlake.format.values import MisfitError
from singerlake.rows.given.arrow.cells import value_cells
from singerlake.rows.given.values.python_values import shown, spelled

EAST = timezone(timedelta(hours=5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3), '"2026-01-02T03:00:00.000000Z"'),
        (datetime(2026, 1, 2, 3, tzinfo=EAST), '"2026-01-01T22:00:00.000000Z"'),
        (date(1, 1, 1), '"0001-01-01"'),
        ({"ä": [1, None, ("x", True)]}, '{"ä":[1,null,["x",true]]}'),
        ("\U0001f600", '"\U0001f600"'),
    ],
)
def test_values_are_json(value: Any, text: str) -> None:
    assert spelled(value) == text.encode()
    json.loads(text)


@pytest.mark.parametrize("value", ["\ud800", {"a": "\ud800"}, {"\ud800": 1}, ["x\udfff"]])
def test_half_of_a_character_is_refused(value: Any) -> None:
    with pytest.raises(MisfitError, match="lone surrogate"):
        spelled(value)
    assert rb"\u" in shown(value)


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), Decimal("NaN")])
def test_a_number_that_json_has_not_is_refused_wherever_it_is(number: Any) -> None:
    for value in (number, {"a": number}, [[number]]):
        with pytest.raises(MisfitError, match="JSON number"):
            spelled(value)


def test_a_time_whose_utc_no_calendar_has_is_refused() -> None:
    for time in (
        datetime(1, 1, 1, tzinfo=EAST),
        datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5))),
    ):
        with pytest.raises(MisfitError, match="timestamp of the years 1 to 9999"):
            spelled({"at": time})
        assert str(time.year) in shown(time).decode()
    not_a_time = pytest.importorskip("pandas").NaT
    with pytest.raises(MisfitError, match="timestamp"):
        spelled(not_a_time)


def test_an_integer_that_python_does_not_write_is_refused() -> None:
    if not hasattr(sys, "get_int_max_str_digits"):
        pytest.skip("this Python writes all integers")
    number = 10 ** sys.get_int_max_str_digits()
    with pytest.raises(MisfitError, match="so few digits"):
        spelled({"a": number})
    assert shown([number]) == b"list of too many digits"


def test_a_value_that_holds_itself_or_is_too_deep_is_refused() -> None:
    around: list[Any] = []
    around.append({"a": around})
    deep: list[Any] = []
    for _ in range(2 * sys.getrecursionlimit()):
        deep = [deep]
    for value in (around, deep):
        with pytest.raises(MisfitError, match="holds itself, or is nested too deeply"):
            spelled(value)
        assert shown(value)


def test_an_object_with_a_member_that_its_column_lacks_is_refused() -> None:
    inner = type_of({"type": "object", "properties": {"n": {"type": ["null", "integer"]}}})
    for type_, wrong, right in (
        (inner, {"n": 1, "m": 2}, {"n": 1}),
        (inner, {"m": None}, {}),
        (Type(Kind.LIST, item=inner), [{"n": 1}, {"m": 2}], [{"n": 1}, None]),
    ):
        cells, misfits = value_cells([wrong, right, None], type_)
        [(row, _, why)] = misfits
        assert (row, why) == (0, f"is not a valid {type_}: it has no member 'm'")
        assert cells.is_valid().to_pylist() == [False, True, False]


def test_a_value_of_no_type_of_a_lake_is_said_to_be_one() -> None:
    with pytest.raises(UsageError, match="a set cannot be stored in a lake"):
        spelled([set()])
