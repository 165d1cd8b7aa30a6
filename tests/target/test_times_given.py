"""Lines without a time get one, many at once as one by one."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format import times
from target_singerlake import messages
from target_singerlake.chunk import Chunk
from target_singerlake.intake import timed_chunk, timed_lines

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=timezone.utc)
START = b'{"type": "RECORD", "stream": "s", "record": {"id": 1'
OWN = "2020-01-01T00:00:00+01:00"
IN_UTC = b'"time_extracted": "2019-12-31T23:00:00.000000Z"'
GIVEN = b'"time_extracted": "2026-11-23T03:00:00.000000Z"'


def both_ways(lines: list[bytes]) -> bytes:
    """What becomes of lines, which must be the same in both ways."""
    chunk = Chunk(b"".join(lines))
    decoded = chunk.decode(messages.ANY)
    assert decoded is not None
    whole = timed_chunk(chunk, decoded)
    assert whole.data == b"".join(timed_lines(lines, decoded))
    assert whole.count == len(lines) == len(whole.lines)
    return whole.data


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now", lambda: NOW)


@pytest.mark.parametrize(
    "name",
    [
        "_sdc_extracted_at",
        r"\u005fsdc_extracted_at",
        r"_sdc\u005Fextracted_at",
        r"_sdc_e\u0078tracted_at",
        r"_sdc_extr\u0061cted_at",
        r"\u005f\u0073\u0064\u0063\u005f\u0065\u0078\u0074\u0072\u0061\u0063\u0074\u0065\u0064\u005f\u0061\u0074",
    ],
)
def test_a_records_own_time_is_found_however_its_name_is_spelled(name: str) -> None:
    own = START + f', "{name}": "{OWN}"'.encode() + b"}}\n"
    data = both_ways([START + b"}}\n", own])
    assert data.count(GIVEN) == data.count(IN_UTC) == 1


@pytest.mark.parametrize(
    "member",
    [
        b'"note": "_sdc_extracted_at"',
        b'"inner": {"_sdc_extracted_at": "2020-01-01T00:00:00Z"}',
        b'"note": "\\u0061 \\" \\n \\u00e9"',
        b'"note": "}\\n{\\"type\\": \\"RECORD\\""',
    ],
)
def test_what_only_looks_like_it_changes_nothing(member: bytes) -> None:
    data = both_ways([START + b", " + member + b"}}\n", START + b"}}\n"])
    assert data.count(GIVEN) == 2


TEXT = st.text(st.sampled_from('_sdc_extracted_at\\"{}\n u005f\u00e9'), max_size=20)


@given(st.lists(st.dictionaries(st.one_of(st.just("_sdc_extracted_at"), TEXT), TEXT), min_size=1))
def test_many_at_once_are_as_one_by_one(records: list[dict[str, str]]) -> None:
    lines = [
        b'{"type": "RECORD", "stream": "s", "record": %b}\n' % json.dumps(one).encode()
        for one in records
    ]
    both_ways(lines)
