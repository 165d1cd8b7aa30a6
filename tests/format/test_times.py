"""Times: ISO 8601 in any offset becomes UTC with microseconds."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format import times

offsets = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
instants = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31))


@settings(max_examples=300)
@given(instants, st.none() | offsets, st.sampled_from(["T", " ", "t"]), st.booleans())
def test_parse_agrees_with_the_standard_library(
    instant: datetime, offset: timezone | None, separator: str, short: bool
) -> None:
    instant = instant.replace(tzinfo=offset, microsecond=0 if short else instant.microsecond)
    text = instant.isoformat().replace("T", separator)
    expected = (instant if offset else instant.replace(tzinfo=timezone.utc)).astimezone(
        timezone.utc
    )
    assert times.parse(text) == expected
    assert times.parse(f"  {text} ") == expected
    if offset is None:
        assert times.parse(text + "Z") == times.parse(text + "z") == expected


@given(instants)
def test_what_is_spelled_reads_the_same(instant: datetime) -> None:
    instant = instant.replace(tzinfo=timezone.utc)
    assert times.parse(times.iso(instant)) == instant
    assert datetime.strptime(times.compact(instant), "%Y%m%dT%H%M%S%fZ") == instant.replace(
        tzinfo=None
    )
    assert times.from_micros(times.micros(instant)) == instant


@given(instants, instants)
def test_spelled_times_sort_as_the_instants_do(one: datetime, other: datetime) -> None:
    a, b = (t.replace(tzinfo=timezone.utc) for t in (one, other))
    assert (times.iso(a) < times.iso(b)) is (a < b)
    assert (times.compact(a) < times.compact(b)) is (a < b)


@pytest.mark.parametrize(
    ("micros", "expected"),
    [
        (253_402_300_800 * 10**6, "9999-12-31T23:59:59.999999Z"),
        (253_402_300_800 * 10**6 - 1, "9999-12-31T23:59:59.999999Z"),
        (2**63, "9999-12-31T23:59:59.999999Z"),
        (10**40, "9999-12-31T23:59:59.999999Z"),
        (-(2**63), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_what_lies_beyond_the_calendar_is_its_end(
    monkeypatch: pytest.MonkeyPatch, micros: int, expected: str
) -> None:
    assert times.iso(times.from_micros(micros)) == expected
    monkeypatch.setattr(time, "time_ns", lambda: micros * 1000)
    assert times.iso(times.now()) == expected


@given(st.text(max_size=20) | st.text("0123456789-:T.Z+ ", max_size=30))
def test_anything_is_a_time_or_none(text: str) -> None:
    found = times.parse(text)
    assert found is None or found.tzinfo is timezone.utc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2018-05-15T11:30Z", "2018-05-15T11:30:00.000000Z"),
        ("2018-05-15", "2018-05-15T00:00:00.000000Z"),
        ("2020-08-19T13:01:56.245769999", "2020-08-19T13:01:56.245769Z"),
        ("2020-08-19T13:01:56,5+0230", "2020-08-19T10:31:56.500000Z"),
        ("2020-08-19T13:01:56 -02", "2020-08-19T15:01:56.000000Z"),
        ("2020-02-30", None),
        ("0001-01-01T00:00:00+02:00", None),
        ("2020-08-19T25:00:00", None),
        ("٢٠٢٠-08-19", None),
        ("", None),
    ],
)
def test_spellings(text: str, expected: str | None) -> None:
    found = times.parse(text)
    assert (None if found is None else times.iso(found)) == expected
