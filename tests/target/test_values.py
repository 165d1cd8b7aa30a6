"""What the target refuses with check_values is what no reader can read, and nothing else."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from singerlake.errors import InputError, StoreError
from singerlake.format import values
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.types import columns_of
from singerlake.lake import Lake
from singerlake.overlay import alter as alters
from singerlake.overlay.overlay_changes import with_type
from singerlake.rows.batches.row_columns import MISFITS
from singerlake.rows.blocks import decoding
from singerlake.snapshot import from_blocks as blocks_read
from target_singerlake.chunk import Chunk
from target_singerlake.errors import InvalidRecordError
from target_singerlake.prover import Prover
from target_singerlake.run import Run
from target_singerlake.validation import Validator
from target_singerlake.values import FEW, ValueCheck
from tests.build import record_line, retype, schema_line
from tests.cli import call as cli
from tests.rows.test_decoding import ANY, BY_KIND, PROPERTIES
from tests.target.harness import TAP, records_of, run, schema, state

COLUMNS: dict[str, Any] = {
    **PROPERTIES,
    "m": {"type": ["string", "null"], "format": "x-singer.decimal", "scale": 6},
    "e": {"type": "string", "format": "date-time", "enum": ["2020-01-01", "never"]},
    "u": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
    "w": {"type": ["integer", "number"]},
    "any": {},
}
VALUES = {
    **BY_KIND,
    "m": st.one_of(BY_KIND["d"], st.sampled_from(["2.00000199999999983", '"1e400"', '"1\\n"'])),
    "e": st.sampled_from(['"2020-01-01"', '"never"']),
    "u": BY_KIND["t"],
    "w": BY_KIND["n"],
    "any": ANY,
}
EARLY = '"0001-01-01T00:00:00+05:00"'
LATE = '"9999-12-31T23:59:59-05:00"'
HIDDEN = '"\\u0039999-12\\u002d31T23:59:59-05:00"'


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[str]]:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    usual = VALUES[name]
    values = draw(st.lists(st.one_of(usual, usual, usual, ANY), max_size=4))
    return name, [text for text in values if "NaN" not in text]  # no JSON, so never taken


def readable(name: str, texts: list[str]) -> list[bool]:
    """Which of some values a reader can have."""
    properties = {name: COLUMNS[name]}
    columns = columns_of(SchemaEntry({"properties": properties}))
    lines = [record_line("s", f'{{"{name}": {text}}}') for text in texts]
    block = Block(number=1, file="", offset=0, length=0, rows=len(texts), bytes=0)
    spec = decoding.BlockSpec("block 1", block, columns, columns)
    batch = decoding.read(schema_line("s", properties, []) + b"".join(lines), spec)
    return [misfits is None for misfits in batch[MISFITS].to_pylist()]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.booleans())
@example(("t", [EARLY, LATE]), False)
@example(("t", [HIDDEN]), True)
@example(("t", ['"0001-01-01T00:00\\u002b05"', '"9999-12-31 23:59\\u002d05"']), True)
@example(("t", ['"9999-12-31T23:59:59+05:00"', '"9999-12-31"', '"0001-01-01 00:00:00-01"']), False)
@example(("o", [f'{{"t": {LATE}}}']), True)
@example(("i", ["9223372036854775808", "1e3", "-0"]), True)
@example(("n", ["1e400", "1" * 400]), False)
@example(("s", ["[1]"]), False)
@example(("d", ['"1.5\\n"', "1.5"]), False)
def test_what_is_refused_is_what_cannot_be_read(case: tuple[str, list[str]], valid: bool) -> None:
    name, texts = case
    expected = readable(name, texts)
    spec = {"type": "object", "properties": {name: COLUMNS[name]}}
    validator = Validator("s", spec, [], records=valid, check_values=True)
    raws = [Raw(f'{{"{name}": {text}}}'.encode()) for text in texts]
    assert [not list(validator.values.misfits(raw)) for raw in raws] == expected
    doubtful = validator.values.doubtful(raws)
    assert doubtful or all(expected)
    assert [not list(validator.values.misfits(raw, doubtful)) for raw in raws] == expected
    lines = [record_line("s", f'{{"{name}": {text}}}') for text in texts]
    chunk = Chunk.of(lines)
    prover = Prover()
    prover.learn("s", lambda: validator.proof, validator.values)
    if (decoders := prover.decoders()) and chunk.plain:
        proven = chunk.decode(decoders[1]) and not prover.may_leave_the_calendar(chunk.data)
        assert not proven or all(expected)


def test_ordinary_values_are_proven_at_once() -> None:
    """Else every record would be tried value by value and no test would notice."""
    record = (
        b'{"i": 1, "n": 1.5, "d": 1.25, "big": "100", "s": "x", "day": "2020-01-02", "b": true, '
        b'"t": "2020-01-01T10:11:12.123456789+02:00", "o": {"t": "2020-01-01T00:00:00Z"}, '
        b'"m": "1.5", "l": ["2020-01-02"], "ll": [{"q": [1, 2.5]}], "any": [1], "w": 3}'
    )
    spec = {"type": "object", "properties": COLUMNS}
    validator = Validator("s", spec, [])
    assert not validator.values.doubtful([Raw(record), Raw(b"{}")] * FEW)
    beyond_types = ("d", "big", "m", "e")
    some = {k: v for k, v in COLUMNS.items() if k not in beyond_types}
    validator = Validator("s", {"type": "object", "properties": some}, ["i"])
    prover = Prover()
    prover.learn("s", lambda: validator.proof, validator.values)
    assert Chunk.of([record_line("s", record.decode())]).decode(prover.decoders()[0]) is not None


END = '"9999-12-31T00:00:00+00:00"'


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("strict", [False, True])
def test_the_end_of_time_is_proven_by_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: int, strict: bool
) -> None:
    """Every slowly changing dimension has it in most of its rows."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("tried one by one")

    for slow in ("accept", "check"):
        monkeypatch.setattr(Validator, slow, never)
    names = [f"s{n}" for n in range(streams)]
    lines = [schema(name, {"valid_to": TIME, "valid_from": TIME}) for name in names]
    values = (END, END.replace("+00:00", "Z"), '"9999-12-31T23:59:59.999999"', "null")
    for n, value in enumerate(values * 20):
        row = f'{{"valid_to": {value}, "valid_from": "0001-01-01T00:00:00Z"}}'
        lines.append(record_line(names[n % streams], row)[:-1])
    assert run(tmp_path / "lake", [*lines, state(1)], check_values=strict) == [1]


def test_a_value_in_doubt_costs_its_own_stream_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked: list[int] = []
    accepted: list[int] = []
    look, accept = ValueCheck.look, Validator.accept

    def counted_look(self: ValueCheck, raw: Raw, line: int, columns: Any = None) -> None:
        looked.append(line)
        look(self, raw, line, columns)

    def counted_accept(self: Validator, records: Any) -> bool:
        accepted.append(len(records))
        return accept(self, records)

    monkeypatch.setattr(ValueCheck, "look", counted_look)
    monkeypatch.setattr(Validator, "accept", counted_accept)
    names = [f"s{n}" for n in range(10)]
    lines = [schema(name, {"at": TIME}) for name in names]
    for n in range(200):
        late = '"infinity"' if n % 10 == 3 else '"2020-01-01T00:00:00Z"'
        lines.append(record_line(names[n % 10], f'{{"at": {late}}}')[:-1])
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path / "lake", [*lines, state(1)]) == [1]
    assert looked == list(range(14, 211, 10))
    assert accepted == [20] * 10
    assert "s3: 20 values" in caplog.text


MONEY = {"type": "number", "multipleOf": 1e-6}
TIME = {"type": ["null", "string"], "format": "date-time"}
LINES = [
    schema("a", {"id": {"type": "integer"}, "at": TIME, "n": {"type": "number"}}, ["id"]),
    b'{"type":"RECORD","stream":"a","record":{"id":1,"at":"2020-01-01T00:00+05","n":1}}',
    b'{"type":"RECORD","stream":"a","record":{"id":2,"at":"infinity","n":1}}',
    b'{"type":"RECORD","stream":"a","record":{"id":3,"at":"","n":1}}',
    schema("b", {"id": {"type": "integer"}}),
    b'{"type":"RECORD","stream":"b","record":{"id":9223372036854775808}}',
    b'{"type":"RECORD","stream":"a","record":{"id":4,"at":"","n":1}}',
    state(1),
]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("apart", [False, True])
def test_the_summary_warns_of_what_no_query_can_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, apart: bool, validate: bool
) -> None:
    lines = LINES if not apart else [line for one in LINES for line in (one, b"")]
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path / "lake", lines, validate_records=validate) == [1]
    said = _warnings(caplog)
    assert len(said) == 2
    assert said[0].startswith("a: 3 values accepted that column 'at' (timestamp) cannot hold")
    assert f'line {5 if apart else 3}: the value "infinity"' in said[0]
    assert said[1].startswith("b: 1 value accepted that column 'id' (int64) cannot hold")
    assert len(records_of(tmp_path / "lake", "a")) == 4


@pytest.mark.parametrize("end", ["input", "commit"])
def test_what_was_acknowledged_is_told_where_the_run_ends_early(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: str,
) -> None:
    """The next run will not bring it again, so nobody would hear of it."""
    odd = [*LINES[:3], b'{"type":"RECORD","stream":"a","record":{"id":3,"n":NaN}}']
    lake = tmp_path / "lake"
    properties = {"id": {"type": "integer"}, "at": TIME, "n": {"type": ["null", "number"]}}
    odd[0] = schema("a", properties, ["id"])
    last = b"nonsense" if end == "input" else record_line("a", '{"id": 4}')[:-1]
    commit = Run.commit

    def failing(self: Run) -> None:
        if end == "commit" and self.committed:
            raise StoreError("no more")
        commit(self)

    monkeypatch.setattr(Run, "commit", failing)
    expected = InputError if end == "input" else StoreError
    with caplog.at_level(logging.WARNING), pytest.raises(expected):
        run(lake, [*odd, state(1), last], commit_minutes=0, non_finite="null")
    assert run.states == [1]  # type: ignore[attr-defined]
    assert "a: 1 value accepted that column 'at'" in caplog.text
    assert "were in 1 record; by the setting non_finite" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING), pytest.raises(InputError):
        run(tmp_path / "other", [*odd, b"nonsense"], non_finite="null")
    assert not _warnings(caplog)  # nothing is committed, so all of it comes again


def test_check_values_refuses_them_with_their_line(tmp_path: Path) -> None:
    said = "line 3: .* 'a': the value \"infinity\" of column 'at' is not a valid timestamp"
    with pytest.raises(InvalidRecordError, match=said):
        run(tmp_path / "lake", LINES, check_values=True)
    with pytest.raises(InvalidRecordError, match="line 2.*'id'"):
        run(tmp_path / "lake", LINES[4:6], check_values=True)


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    ("spec", "value", "type_"),
    [
        ({"type": "integer"}, "9223372036854775808", "64-bit integer"),
        ({"type": "string", "format": "date-time"}, '"infinity"', "timestamp"),
        ({"type": "string", "format": "date-time"}, LATE, "timestamp"),
        ({"type": "string", "format": "date-time"}, HIDDEN, "timestamp"),
    ],
)
def test_what_does_not_fit_a_key_is_always_refused(
    tmp_path: Path, spec: dict[str, Any], value: str, type_: str, validate: bool
) -> None:
    """By a key rows are told apart: nobody could read any of the table."""
    good = b"1" if spec["type"] == "integer" else b'"2020-01-01T00:00:00Z"'
    record = b'{"type":"RECORD","stream":"%b","record":{"id":%b,"t":null}}'
    other = schema("b", {"id": {"type": "integer"}, "t": TIME}, ["id"])
    lines = [
        other,
        schema("a", {"id": spec, "t": TIME}, ["id"]),
        record % (b"a", good),
        record % (b"b", b"1"),
        record % (b"a", value.encode()),
        state(1),
    ]
    said = f"line 5: the record of stream 'a': .* of column 'id' is not a valid {type_}, and the"
    with pytest.raises(InvalidRecordError, match=said) as caught:
        run(tmp_path / "lake", lines, validate_records=validate)
    assert "correct the value or the column's type in the tap" in str(caught.value)
    assert caught.value.exit_code == 5
    # The first of several errors is told, of whatever stream: here a warning comes before it.
    odd = record.replace(b"null", b'""') % (b"b", b"2")
    with pytest.raises(InvalidRecordError, match="line 5"):
        run(tmp_path / "lake", [*lines[:3], odd, lines[4]], validate_records=validate)
    assert run(tmp_path / "lake", [*lines[:4], lines[-1]], validate_records=validate) == [1]
    assert len(records_of(tmp_path / "lake", "a")) == 1


def test_check_values_takes_offsets_and_times_that_format_validation_refuses(
    tmp_path: Path,
) -> None:
    assert run(tmp_path / "lake", [*LINES[:2], state(5)], check_values=True) == [5]
    with pytest.raises(InvalidRecordError, match="at"):
        run(tmp_path / "other", LINES[:2], validate_formats=True)


def test_values_of_a_mapped_stream_are_looked_at_as_mapped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    maps = {"a": {"when": "at", "id": "id", "__else__": None}}
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "lake", LINES, stream_maps=maps)
    said = _warnings(caplog)
    assert "column 'when' (timestamp)" in said[0]
    maps = {"a": {"n": None}}
    with pytest.raises(InvalidRecordError, match="line 3.*infinity"):
        run(tmp_path / "lake", LINES, stream_maps=maps, check_values=True)


def test_what_a_person_made_text_of_takes_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path / "lake", LINES[:2])
    table, _ = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.a")
    retype(table.store, table.snapshot(), "at")
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path / "lake", [*LINES[:4], state(1)], check_values=True) == [1]
        run(tmp_path / "lake", LINES[:4])
    assert not _warnings(caplog)


def test_only_columns_in_doubt_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {
        **{f"i{n}": {"type": "integer"} for n in range(20)},
        "t": {"type": "string", "format": "date-time"},
        "m": {"type": "number", "multipleOf": 0.01},
        "nested": {"type": "object", "properties": {"m": {"type": "number", "multipleOf": 0.01}}},
    }
    entry = SchemaEntry({"properties": properties})
    check = ValueCheck("s", entry, {})
    usual = b'"i0":1,"t":"2026-01-01T00:00:00Z","m":1.25'
    records = [Raw(b"{%b}" % usual), Raw(b'{"i1":9223372036854775808,%b}' % usual)]
    assert check.doubtful(records[:1] * (FEW + 1)) == frozenset()
    assert check.doubtful(records) == {"i1"}
    assert check.doubtful([Raw(b'{"t":"9999-12-31T23:59:59-05:00"}')]) == {"t"}
    assert check.doubtful([Raw(b'{"m":1.255}'), Raw(b'{"nested":{"m":1.25}}')]) == {"m", "nested"}

    tried: list[str] = []
    plain = values.misfit
    monkeypatch.setattr(
        values, "misfit", lambda raw, convert, name: tried.append(name) or plain(raw, convert, name)
    )
    for line, record in enumerate(records, start=1):
        check.look(record, line, check.doubtful(records))
    assert tried == ["i1"]


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said; not the counts that the SDK logs for programs."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


BIG = [str(1234567890123456780 + n) for n in range(3)]


@pytest.mark.parametrize("kinds", [["null", "number"], "number", ["integer", "number"]])
def test_key_that_its_column_rounds_is_taken_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kinds: Any
) -> None:
    keyed = schema("s", {"id": {"type": kinds}}, ["id"])
    lines = [record_line("s", f'{{"id": {text}}}').strip() for text in ("1", "1.5", *BIG)]
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, [keyed, *lines, state(1)]) == [1]
    assert len(records_of(tmp_path, "s")) == 5
    [warning] = [one.message for one in caplog.records if "would round" in one.message]
    assert warning.startswith("s: 3 values accepted that the key column 'id' (double)")
    assert f"singerlake alter {TAP}.s retype id TYPE" in warning


@pytest.mark.parametrize("spec", [{"type": "number"}, {"type": "number", "multipleOf": 1}])
def test_key_of_zero_is_taken_with_an_exponent_of_any_size(
    tmp_path: Path, spec: dict[str, Any]
) -> None:
    keyed = schema("s", {"id": spec}, ["id"])
    zeros = ("0", "0e9999999999", "-0.0E+99999999999999999999", "0e-" + "9" * 3000)
    run(tmp_path, [keyed, *(record_line("s", f'{{"id": {text}}}').strip() for text in zeros)])
    table = Lake.open(str(tmp_path)).find(f"{TAP}.s")[0]
    rows = [
        row
        for batch in blocks_read.local_rows(table, table.snapshot())
        for row in batch.to_pylist()
    ]
    assert [row["c0"] for row in rows] == [0]


def test_column_that_was_renamed_is_told_by_the_name_that_alter_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = schema("s", {"id": {"type": "number"}, "n": {"type": "integer"}}, ["id"])
    run(tmp_path, [keyed, record_line("s", '{"id": 1}').strip()])
    for old, new in (("id", "number"), ("n", "count")):
        done = cli.run(str(tmp_path), "alter", f"{TAP}.s", "rename-column", old, new)
        assert done.exit_code == 0, done.output
    with caplog.at_level(logging.WARNING):
        run(tmp_path, [keyed, record_line("s", f'{{"id": {BIG[0]}, "n": {10**30}}}').strip()])
    first, second = sorted(_warnings(caplog))
    assert "key column 'number' (double)" in first + second
    assert f"singerlake alter {TAP}.s retype number TYPE" in first + second
    assert "column 'count' (int64)" in first + second


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        ({"type": "number"}, "1234567890123456800", "1234567890123456780"),
        (
            {"type": "string", "format": "date-time"},
            '"2026-01-01T00:00:00.120000000Z"',
            '"2026-01-01T00:00:00.1234567Z"',
        ),
    ],
)
def test_key_that_its_column_rounds_is_refused_with_check_values(
    tmp_path: Path, spec: dict[str, Any], good: str, bad: str
) -> None:
    keyed = schema("s", {"id": spec}, ["id"])
    fits, rounded = (record_line("s", f'{{"id": {text}}}').strip() for text in (good, bad))
    run(tmp_path, [keyed, fits], check_values=True)
    with pytest.raises(InputError, match="as one in a key must be"):
        run(tmp_path, [keyed, rounded], check_values=True)
    assert len(records_of(tmp_path, "s")) == 1


def test_whole_numbers_of_a_key_are_proved_at_a_glance() -> None:
    """That a key of numbers is looked at digit by digit costs those nothing that are small."""
    entry = SchemaEntry({"properties": {"id": {"type": "number"}}}, ["id"])
    check = ValueCheck("s", entry, {})
    small = [Raw(f'{{"id": {number}}}'.encode()) for number in (0, -5, 1 << 53)]
    assert check.doubtful(small * FEW) == frozenset()
    assert check.doubtful([*small, Raw(b'{"id": 9007199254740993}')]) == {"id"}


def test_key_that_was_made_a_decimal_is_taken_again(tmp_path: Path) -> None:
    """The way out of keys that their column rounds must not bar the tap."""
    keyed = schema("s", {"id": {"type": ["null", "number"]}}, ["id"])
    big = record_line("s", f'{{"id": {BIG[0]}}}').strip()
    run(tmp_path, [keyed, big])
    lake = Lake.open(str(tmp_path))
    table = lake.find(f"{TAP}.s")[0]

    decimal = {"type": ["null", "number"], "multipleOf": 1}
    change = partial(with_type, name="id", schema=decimal)
    options = alters.AlterOptions()
    wanted = alters.plan(table.snapshot(), change, options)
    alters.commit_alter(lake.store, wanted, change, options, by_rows=True)
    run(tmp_path, [keyed, record_line("s", f'{{"id": {BIG[1]}}}').strip()])
    whole = schema("s", {"id": {"type": "integer"}}, ["id"])
    run(tmp_path, [whole, record_line("s", '{"id": 5}').strip()])
    found = [
        row["c0"]
        for batch in blocks_read.local_rows(table, table.snapshot())
        for row in batch.to_pylist()
    ]
    assert sorted(map(str, found)) == sorted([*BIG[:2], "5"])
    words = schema("s", {"id": {"type": "string"}}, ["id"])
    with pytest.raises(InputError, match="which might not identify rows:"):
        run(tmp_path, [words, record_line("s", '{"id": "x"}').strip()])
