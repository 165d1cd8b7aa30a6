"""Whatever stands around records, a block is read as the exact way reads it, with its digests."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.rows.batches.row_columns import DIGEST, VERSION
from singerlake.rows.blocks import decoding, lenient_json, type_prover
from tests.build import activate_line, schema_line
from tests.rows.test_decoding import columns
from tests.rows.test_proved_types import ODD, WIDE

needs_arro3 = pytest.mark.skipif(not lenient_json.ready(), reason="arro3-io is not installed")
BEFORE = b'{"type": "RECORD", "stream": "s", "record": '
BEHIND = b', "time_extracted": "2026-02-01T00:00:00.%06dZ"}'


def line(record: bytes, before: bytes = BEFORE, behind: bytes = BEHIND % 7) -> bytes:
    return before + record + behind + b"\n"


PROPERTIES = {name: WIDE[name] for name in ("i", "n", "s", "t", "b", "o", "l")}
AROUND = [
    (BEFORE, BEHIND % 1), (BEFORE, BEHIND % 2), (BEFORE, b"}"), (BEFORE, b', "version": 3}'),
    (BEFORE, b', "more": {"i": 5}}'), (BEFORE, b', "more": "}, \\"a\\": {"}'), (BEFORE, b"}}"),
    (b'{"type":"RECORD","record":', b"}"), (BEFORE, b', "record": {"i": 8}}'),
    (BEFORE, b', "time_extracted": "1"}'), (BEFORE, b', "time_extracted": "}"}'),
    (BEFORE, b', "more": {}, "time_extracted": "2"}'), (BEFORE, b', "type": "STATE"}'),
]  # fmt: skip


@st.composite
def odd_records(draw: st.DrawFn) -> list[bytes]:
    """Lines of which most have the same around their records; some with bytes by accident."""
    value = st.sampled_from(ODD) | st.text(max_size=6).map(lambda text: json.dumps(text).encode())
    usual = draw(st.sampled_from(AROUND))
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(
            st.lists(st.sampled_from([*PROPERTIES, "more", "_sdc_deleted_at"]), max_size=4)
        )
        members = [b'"%s": %b' % (name.encode(), draw(value)) for name in names]
        around = draw(st.sampled_from([usual, usual, usual, *AROUND]))
        lines.append(line(b"{" + b", ".join(members) + b"}", *around))
    if draw(st.integers(0, 2)) == 0:
        at = draw(st.integers(0, len(lines) - 1))
        place, more = draw(st.integers(0, len(lines[at]) - 1)), draw(st.sampled_from(b'{}",\\: \n'))
        rest = lines[at][place + draw(st.integers(0, 1)) :]
        lines[at] = lines[at][:place] + bytes([more]) + rest
    return lines


def spec(rows: int, *, proved: bool) -> decoding.BlockSpec:
    entry = Block(number=7, file="", offset=0, length=0, rows=rows, bytes=0)
    own = columns(PROPERTIES)
    return decoding.BlockSpec("block 7", entry, own, own, digests=True, proved=proved)


def check(lines: list[bytes]) -> bool:
    """Hold lines, read as ones whose types are proved, against the exact way; tell if they are."""
    text = b"".join(lines)
    if not type_prover.proves([text], columns(PROPERTIES)):
        return False
    rows = sum(b"ACTIVATE" not in one for one in text.splitlines())
    text = schema_line("s", PROPERTIES, []) + text
    try:
        exact = decoding.read(text, spec(rows, proved=False))
    except DamagedError as error:
        with pytest.raises(DamagedError, match=str(error)[:20]):
            decoding.read(text, spec(rows, proved=True))
        return False
    assert decoding.read(text, spec(rows, proved=True)).equals(exact)
    assert exact.column(DIGEST).null_count == 0
    return True


@needs_arro3
@settings(max_examples=150, deadline=None)
@given(odd_records())
@example([line(b'{"i": 1}', behind=b"}"), line(b'{"i": 1}', behind=b', "more": {"i": 5}}')])
@example([line(b'{"i": 1}'), line(b'{"i": 1}, "record": {"i": 2}')])
@example([line(b'{"i": 1}'), line(b'{"s": "x'), line(b'x", "i": 2}')])
@example([line(b"{}", behind=b"}"), line(b"{}", behind=b"}")[:-1], line(b"{}", behind=b"}")])
def test_records_in_odd_envelopes_are_read_exactly(lines: list[bytes]) -> None:
    check(lines)


@needs_arro3
def test_most_odd_values_are_read_that_way() -> None:
    """Else the test above would prove nothing."""
    read = [
        check([line(b"{}"), line(b'{"%b": %b}' % (name.encode(), value))])
        for name in PROPERTIES
        for value in ODD
    ]
    assert sum(read) > 60


@needs_arro3
@pytest.mark.parametrize(
    "lines",
    [
        [line(b'{"i": 1}'), line(b'{"i": 2}')],
        [
            line(b'{"i": 1}', behind=b', "version": 4}'),
            line(b'{"i": 2}', behind=b', "version": 4}'),
        ],
        [line(b'{"i": 1}', behind=b"}"), line(b'{"i": 2}, "more": {"i": 3}', behind=b"}")],
        [line(b'{"i": 1}'), activate_line("s", 3), line(b'{"i": 2}')],
        [line(b'{"s": "\\ud840\\udc00"}'), line(b'{"s": "\\u0000"}')],
    ],
)
def test_versions_and_digests_are_those_of_the_exact_way(lines: list[bytes]) -> None:
    assert check(lines)
    text = schema_line("s", PROPERTIES, []) + b"".join(lines)
    assert decoding.read(text, spec(2, proved=True)).column(VERSION).null_count in (0, 2)


@needs_arro3
def test_a_block_of_more_rows_than_the_log_says_is_damaged() -> None:
    lines = [line(b'{"i": 1}')] * 3
    with pytest.raises(DamagedError, match="has 3 rows instead of 2 in the log"):
        decoding.read(schema_line("s", PROPERTIES, []) + b"".join(lines), spec(2, proved=True))
