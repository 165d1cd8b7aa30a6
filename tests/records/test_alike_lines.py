"""Records are cut out of lines that differ in nothing else, and read as whole lines are."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.format.set_hash import digest
from singerlake.records.blocks import (
    alike_lines,
    decoding,
    digests,
    exact_decoding,
    fast_decoding,
    lenient_json,
    type_prover,
)
from singerlake.records.rows.row_columns import DIGEST, VERSION
from tests.build import activate_line, schema_line
from tests.records.test_decoding import columns
from tests.records.test_proved_types import ODD, WIDE

needs_arro3 = pytest.mark.skipif(not lenient_json.ready(), reason="arro3-io is not installed")
BEFORE = b'{"type": "RECORD", "stream": "s", "record": '
BEHIND = b', "time_extracted": "2026-02-01T00:00:00.%06dZ"}'


def line(record: bytes, before: bytes = BEFORE, behind: bytes = BEHIND % 7) -> bytes:
    return before + record + behind + b"\n"


def cut(*lines: bytes) -> list[bytes] | None:
    read = alike_lines.read(b"".join(lines))
    if read is None:
        return None
    records = read.text.splitlines()
    assert read.text == b"".join(record + b"\n" for record in records)
    assert read.digests.to_pylist() == [digest(record) for record in records]
    assert len(read.versions) == len(records)
    return records


def test_records_are_cut_out_of_lines_that_a_tap_has_written() -> None:
    records = [b"{}", b'{"i": 1}', b'{"s": "}, \\"record\\": {\xc3\xa9}", "o": {"i": 2}}']
    assert cut(*(line(record, behind=BEHIND % n) for n, record in enumerate(records))) == records
    assert cut(*(line(record, behind=b"}") for record in records)) == records
    tight = [b'{"record":' + record + b',"type":"RECORD","version":3}\n' for record in records]
    assert cut(*tight) == records
    read = alike_lines.read(b"".join(tight))
    assert read is not None
    assert read.versions.to_pylist() == [3, 3, 3]


def test_lines_are_cut_by_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line(b'{"i": %d}' % n, behind=BEHIND % n) for n in range(100)]
    assert len(cut(*lines) or []) == 100
    monkeypatch.setattr(alike_lines, "_PIECE_BYTES", 300)
    assert cut(*lines) == [b'{"i": %d}' % n for n in range(100)]
    read = alike_lines.read(b"".join([b"{}\n", *lines]), 3)
    assert read is not None
    assert len(read.digests) == 100
    assert cut(*lines, activate_line("s", 1)) is None
    assert cut(*lines[:-1], lines[-1][:-1]) is None, "the last line has no end"


@pytest.mark.parametrize(
    "other",
    [
        activate_line("s", 1), b"\n", line(b'{"i": 1}', behind=b"}"), line(b' {"i": 1}'),
        line(b'{"i": 1} '), line(b'{"i": 1}', b'{"type": "STATE", "record": '),
        line(b'{"i": 1}', behind=b', "time_extracted": "2026-02-01T00:00:00Z"}'),
        line(b'{"i": 1}', behind=BEHIND % 7 + b" "), line(b'{"i": 1}', b" " + BEFORE),
        line(b'{"i": 1}', behind=(BEHIND % 7).replace(b"20", b'\\"')),
        line(b'{"i": 1}', behind=(BEHIND % 7).replace(b"Z", b"z")), b'{"i": 1}\n',
    ],
)  # fmt: skip
def test_a_line_with_anything_else_around_its_record_is_not_cut(other: bytes) -> None:
    assert cut(line(b"{}"), other) is None
    assert cut(line(b"{}"), other, line(b"{}")) is None


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (b'{"type": "STATE", "record": ', b"}"), (b'{"type": "RECORD", "n": 1, "record": ', b"}"),
        (b'{"type": "RECORD", "a\\"": "", "record": ', b"}"), (BEFORE, b', "version": 1.0}'),
        (b'{"type": "RECORD", "x": {}, "record": ', b"}"), (BEFORE, b', "a": "\\\\"}'),
        (BEFORE, b', "more": {}}'), (BEFORE, b', "more": []}'), (BEFORE, b', "record": {}}'),
        (BEFORE, b', "record": null}'), (BEFORE, b', "type": "STATE"}'), (BEFORE, b"} {}"),
        (BEFORE, b', "version": "1"}'), (BEFORE, b', "version": 9223372036854775808}'),
        (BEFORE, b"}}"), (BEFORE, b""),
    ],
)  # fmt: skip
def test_lines_are_not_cut_where_a_record_may_end_elsewhere(before: bytes, behind: bytes) -> None:
    assert cut(line(b'{"i": 1}', before, behind)) is None


def test_versions_that_differ_are_read_from_each_line() -> None:
    assert cut(*(line(b"{}", behind=b', "version": %d}' % n) for n in (1, 2))) is None


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


def check(lines: Iterable[bytes]) -> bool:
    """Hold what is cut and read of proved lines against the exact way; tell whether any is."""
    wanted = columns(PROPERTIES)
    text = b"".join(lines)
    if not type_prover.proves([text], wanted) or (alike := alike_lines.read(text)) is None:
        return False
    fast = fast_decoding.read_proved(alike.text, wanted, alike.versions)
    if fast is None:
        return False
    slow = exact_decoding.read(text, wanted, "block 1")
    assert not slow.misfits
    for one_way, other in zip(fast.columns, slow.columns, strict=True):
        assert one_way.equals(other)
    assert fast.versions.equals(slow.versions)
    assert fast.deleted.equals(slow.deleted)
    assert alike.digests.equals(digests.of_lines(text, "block 1", len(slow)))
    return True


@needs_arro3
@settings(max_examples=150, deadline=None)
@given(odd_records())
@example([line(b'{"i": 1}', behind=b"}"), line(b'{"i": 1}', behind=b', "more": {"i": 5}}')])
@example([line(b'{"i": 1}'), line(b'{"i": 1}, "record": {"i": 2}')])
@example([line(b'{"i": 1}'), line(b'{"s": "x'), line(b'x", "i": 2}')])
@example([line(b"{}", behind=b"}"), line(b"{}", behind=b"}")[:-1], line(b"{}", behind=b"}")])
def test_records_that_are_cut_out_are_read_exactly(lines: list[bytes]) -> None:
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


def spec(*, proved: bool) -> decoding.BlockSpec:
    entry = Block(number=7, file="", offset=0, length=0, rows=2, bytes=0)
    own = columns(PROPERTIES)
    return decoding.BlockSpec("block 7", entry, own, own, digests=True, proved=proved)


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
def test_a_block_is_read_alike_whether_records_can_be_cut_out_or_not(lines: list[bytes]) -> None:
    text = schema_line("s", PROPERTIES, []) + b"".join(lines)
    read = decoding.read(text, spec(proved=True))
    assert read.equals(decoding.read(text, spec(proved=False)))
    assert read.column(DIGEST).null_count == 0
    assert read.column(VERSION).null_count in (0, 2)


@needs_arro3
def test_a_block_of_more_rows_than_the_log_says_is_damaged() -> None:
    lines = [line(b'{"i": 1}')] * 3
    with pytest.raises(DamagedError, match="has 3 rows where the log says 2"):
        decoding.read(schema_line("s", PROPERTIES, []) + b"".join(lines), spec(proved=True))
