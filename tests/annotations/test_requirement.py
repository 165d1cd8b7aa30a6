"""What a requirement says, without rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from singerlake.annotations.requirement import Requirement, parse, parse_all
from singerlake.errors import UsageError

READ = [
    ("rows > 0", ("rows", None, ">", Decimal(0), False)),
    ("ROWS>=1_000", ("rows", None, ">=", Decimal(1000), False)),
    ("deleted < 5%", ("deleted", None, "<", Decimal(5), True)),
    ("unchanged >= 99.5 %", ("unchanged", None, ">=", Decimal("99.5"), True)),
    ("nulls(total) = 0", ("nulls", "total", "=", Decimal(0), False)),
    ("nulls( total ) <= 20%", ("nulls", "total", "<=", Decimal(20), True)),
    ("distinct(`a.b (c)`) <> 3", ("distinct", "a.b (c)", "<>", Decimal(3), False)),
    ("sum(`a``b`) != -1.5", ("sum", "a`b", "!=", Decimal("-1.5"), False)),
    ("min(a.b) > 0", ("min", "a.b", ">", Decimal(0), False)),
    ("max(name) == 'it''s'", ("max", "name", "==", "it's", False)),
    ("max(at) < '2026-01-01'", ("max", "at", "<", "2026-01-01", False)),
    ("freshness < 24h", ("freshness", None, "<", timedelta(hours=24), False)),
    ("Schema  unchanged", ("schema", None, "", "", False)),
    ("sql: select 1 where 1 > 2", ("sql", None, "", "select 1 where 1 > 2", False)),
]


@pytest.mark.parametrize(("text", "read"), READ, ids=[text for text, _ in READ])
def test_parse_reads_each_form(text: str, read: tuple[object, ...]) -> None:
    found = parse(text)
    assert found.text == text
    assert (found.measure, found.column, found.comparison, found.bound, found.percent) == read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a requirement: write it as"),
        ("rows", "is not a requirement: write it as"),
        ("rows >", "is not a requirement"),
        ("rows ~ 5", "is not a requirement"),
        ("rwos > 1", "did you mean rows?"),
        ("schema > 1", "unknown"),
        ("sql > 1", "unknown"),
        ("rows(id) > 1", "must measure rows"),
        ("nulls > 1", "must measure nulls(COLUMN)"),
        ("nulls() > 1", "is not a requirement"),
        ("rows > many", "'many', which is not a number"),
        ("rows > 1e3", "which is not a number"),
        ("rows > 5%", "a percentage"),
        ("sum(a) > 5%", "a percentage"),
        ("sum(a) > 'x'", "which is not a number"),
        ("max(a) > x", "not a number or a text in single quotes"),
        ("max(a) > '", "not a number or a text in single quotes"),
        ("freshness < 5", "write it as a number and a unit"),
        ("freshness < 5%", "write it as a number and a unit"),
        ("sql:  ", "has no statement"),
    ],
)
def test_parse_refuses_what_it_cannot_read(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert message in str(error.value)


def test_parse_all_takes_a_requirement_once() -> None:
    assert [one.text for one in parse_all([" rows > 0", "deleted < 5%", "rows > 0 "])] == [
        "rows > 0",
        "deleted < 5%",
    ]


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("rows > 2", 2, False),
        ("rows >= 2", 2, True),
        ("rows <> 2", 2, False),
        ("rows != 3", 2, True),
        ("rows = 2", 2, True),
        ("rows < 2", 1, True),
        ("rows <= 1", 2, False),
        ("sum(a) = 0.1", Decimal("0.10"), True),
        ("sum(a) = 0.1", 0.1, False),  # the double is not a tenth
        ("max(a) < 0.5", 0.25, True),
        ("max(a) > 'b'", "c", True),
        ("max(a) > '2026-01-01'", "2026-01-02", True),
        ("max(a) > '2026-01-01'", date(2026, 1, 1), False),
        ("max(a) > '2026-01-01'", datetime(2026, 1, 1, 1, tzinfo=timezone.utc), True),
        (
            "max(a) = '2026-01-01T02:00:00+01:00'",
            datetime(2026, 1, 1, 1, tzinfo=timezone.utc),
            True,
        ),
        ("freshness < 1h", timedelta(minutes=59), True),
        ("freshness < 1h", timedelta(minutes=60), False),
    ],
)
def test_met_by_compares_by_value(text: str, value: object, met: bool) -> None:
    assert parse(text).met_by(value) is met


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max(a) > 1", "b"),
        ("max(a) > 1", date(2026, 1, 1)),
        ("max(a) > 1", datetime(2026, 1, 1, tzinfo=timezone.utc)),
        ("max(a) > 'b'", 1),
        ("max(a) > 'b'", 1.5),
        ("max(a) > 'b'", Decimal(1)),
        ("max(a) > 'b'", date(2026, 1, 1)),
    ],
)
def test_met_by_refuses_a_bound_of_another_type(text: str, value: object) -> None:
    with pytest.raises(UsageError, match="compares max"):
        parse(text).met_by(value)


def test_met_by_refuses_a_time_span_for_a_number() -> None:
    wanted = Requirement("rows < 1h", "rows", comparison="<", bound=timedelta(hours=1))
    with pytest.raises(UsageError, match="another type"):
        wanted.met_by(5)
