"""RECORD lines out are the RECORD lines in, byte for byte, in order, whatever they look like."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from singerlake.format import times
from target_singerlake import intake, mixed_lines, reader
from target_singerlake import run as run_module
from tests.target.harness import (
    DATA,
    NOW,
    TAP,
    activate,
    data_files,
    leftovers,
    lines_of,
    plain_reader,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
)

STREAMS = ["a", "b", "ü/…", "c d"]
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
MODEST = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

numbers = st.sampled_from(
    ["1.10", "1e5", "1E+05", "-0", "-0.0", "0.1e-7", "123456789012345678901234567890", "1e400"]
) | st.integers().map(str)
strings = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).map(
        lambda s: json.dumps(s, ensure_ascii=False)
    ),
    st.sampled_from(['"\\u0000"', '"\\/"', '"}\\n{"', '"}{"', '"\\ud83d\\ude00"', '"\u2028"']),
)
spaces = st.sampled_from(["", "", " ", "  ", "\t"])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # Keys are drawn with repetition: duplicate keys must survive.
    pair = st.tuples(strings, spaces, values).map(lambda p: f"{p[0]}:{p[1]}{p[2]}")
    return st.tuples(st.lists(pair, max_size=3), spaces).map(
        lambda p: "{" + f"{p[1]},".join(p[0]) + p[1] + "}"
    )


values = st.recursive(
    numbers | strings | st.sampled_from(["true", "false", "null"]),
    lambda inner: objects(inner) | st.lists(inner, max_size=3).map(lambda v: f"[{', '.join(v)}]"),
    max_leaves=6,
)


@st.composite
def record_lines(draw: st.DrawFn, stream: str) -> bytes:
    """A RECORD line in any spelling, for a schema that asks for an integer id."""
    gap = draw(spaces)
    fields = [f'"id":{gap}{draw(st.integers(-(2**70), 2**70))}']
    fields += draw(
        st.lists(st.tuples(strings, values).map(lambda p: f"{p[0]}: {p[1]}"), max_size=3)
    )
    fields = [f for f in fields if not f.startswith('"id": ')] or fields
    parts = [
        '"type":' + gap + '"RECORD"',
        f'"stream": {json.dumps(stream, ensure_ascii=draw(st.booleans()))}',
        '"record": {' + f",{gap}".join(fields) + "}",
    ]
    if draw(st.booleans()):
        parts = draw(st.permutations(parts))
    if draw(st.booleans()):
        stamp = draw(st.sampled_from([f'"2026-01-02T03:04:{n:02d}+02:00"' for n in range(60)]))
        parts.append(f'"time_extracted": {draw(st.just(stamp) | st.sampled_from(["null", stamp]))}')
    if draw(st.booleans()):
        parts.append(f'"version": {draw(st.integers(0, 9))}')
    line = "{" + gap + f"{gap},{gap}".join(parts) + gap + "}"
    return (line + draw(st.sampled_from(["", "", "\r", " "]))).encode()


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    """Messages of some streams in any order, each stream's SCHEMA first, and changes of it."""
    streams = draw(st.lists(st.sampled_from(STREAMS), min_size=1, max_size=4, unique=True))
    lines = [schema(stream) for stream in streams]
    for stream in draw(st.lists(st.sampled_from(streams), max_size=25)):
        kind = draw(st.sampled_from("RRRRRRSSVTN"))
        if kind == "S":
            extra = draw(st.sampled_from(["x", "y"]))
            lines.append(schema(stream, {"id": {"type": "integer"}, extra: {}}))
        elif kind == "V":
            lines.append(activate(stream, draw(st.integers(0, 9))))
        elif kind == "T":
            lines.append(state({"n": len(lines)}))
        elif kind == "N":
            lines.append(b"")
        else:
            lines.append(draw(record_lines(stream)))
    return lines


def by_stream(lines: list[bytes]) -> dict[str, list[bytes]]:
    """The lines that should land, by stream."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for line in lines:
        message = json.loads(line) if line else {}
        if message.get("type") == "SCHEMA":
            _ = found[message["stream"]]
        elif message.get("type") in ("RECORD", "ACTIVATE_VERSION"):
            found[message["stream"]].append(line)
    return found


ADDED = re.compile(rb', "time_extracted": "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"(?=\}[ \t\r]*$)')


def assert_landed(lake: Path, lines: list[bytes]) -> None:
    expected = by_stream(lines)
    assert set(tables(lake)) == set(expected)
    for stream, sent in expected.items():
        out = lines_of(lake, stream)
        assert len(out) == len(sent)
        for came, went in zip(out, sent, strict=True):
            message = json.loads(went)
            if message["type"] == "RECORD" and "time_extracted" not in message:
                came, added = ADDED.subn(b"", came)
                assert added == 1
            assert came == went
    for path in data_files(lake):
        assert_plain_singer(path)
    assert leftovers(lake) == []


def assert_plain_singer(path: Path) -> None:
    """Any gzip, line by line; and in each member the SCHEMA comes first."""
    assert next(plain_reader(path))["type"] == "SCHEMA"
    data, members = path.read_bytes(), 0
    for line in plain_reader(path):
        assert line["type"] in ("SCHEMA", "RECORD", "ACTIVATE_VERSION")
    while data:
        inflater = zlib.decompressobj(wbits=31)
        lines = inflater.decompress(data).split(b"\n")
        assert lines.pop() == b""
        assert json.loads(lines[0])["type"] == "SCHEMA"
        assert all(json.loads(line)["type"] != "SCHEMA" for line in lines[1:])
        data, members = inflater.unused_data, members + 1
    assert members >= 1


@pytest.fixture
def fresh() -> Iterator[Any]:
    """Gives a new folder at each call."""
    folders: list[str] = []

    def make() -> Path:
        folders.append(tempfile.mkdtemp(prefix="singerlake-", dir=FAST))
        return Path(folders[-1]) / "lake"

    yield make
    for folder in folders:
        shutil.rmtree(folder)


@MODEST
@given(
    lines=runs(),
    block_rows=st.sampled_from([1, 2, 3, 7, 25_000]),
    file_bytes=st.sampled_from([1, 300, 1000, 10**8]),
    chunk=st.integers(1, 400) | st.just(1 << 20),
    validate=st.booleans(),
    commit_minutes=st.sampled_from([0, 5]),
    limits=st.sampled_from([(1, 1, 1), (200, 500, 300), (1 << 24, 1 << 26, 1 << 22)]),
    run_lines=st.sampled_from([0, 3, 8]),
)
@example([schema("a"), record("a", {"id": 1})], 1, 1, 7, True, 0, (1, 1, 1), 8)
def test_any_input_comes_out_as_it_went_in(
    fresh: Any,
    lines: list[bytes],
    block_rows: int,
    file_bytes: int,
    chunk: int,
    validate: bool,
    commit_minutes: int,
    limits: tuple[int, int, int],
    run_lines: int,
) -> None:
    lake = fresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK", chunk)
        patch.setattr(intake, "STRETCH_LINES", run_lines)
        patch.setattr(run_module, "BLOCK_BYTES", limits[0])
        patch.setattr(run_module, "BUFFER_BYTES", limits[1])
        patch.setattr(mixed_lines, "ENOUGH_BYTES", limits[2])
        states = run(
            lake,
            b"\n".join(lines),  # no newline at the very end
            block_rows=block_rows,
            file_bytes=file_bytes,
            validate_records=validate,
            commit_minutes=commit_minutes,
        )
    assert_landed(lake, lines)
    sent = [json.loads(line)["value"] for line in lines if b'"STATE"' in line]
    assert states == (sent if commit_minutes == 0 else sent[-1:])


@pytest.mark.parametrize("validate", [True, False])
def test_large_lines_and_crlf(tmp_path: Path, validate: bool) -> None:
    big = json.dumps({"id": 1, "text": "ä" * (1 << 20)}, ensure_ascii=False)
    lines = [schema("a"), schema("b")]
    for n in range(6):
        lines.append(record("b", {"id": n}))
        lines.append(f'{{"type":"RECORD","stream":"a","record":{big},"n":{n}}}'.encode())
    crlf = [line + b"\r" for line in lines]
    run(tmp_path / "lake", crlf, validate_records=validate)
    assert_landed(tmp_path / "lake", crlf)


def test_a_line_of_50_mebibytes(tmp_path: Path) -> None:
    lines = [schema("a"), record("a", {"id": 1})]
    lines.append(record("a", {"id": 2, "x": "y" * (50 << 20)}))
    lines.append(record("a", {"id": 3}))
    run(tmp_path / "lake", lines)
    assert lines_of(tmp_path / "lake", "a") == lines[1:]


def test_blocks_and_files_are_cut_where_the_settings_say(tmp_path: Path) -> None:
    lines = [schema("a")] + [record("a", {"id": n}) for n in range(25)]
    run(tmp_path / "lake", lines, block_rows=10, file_bytes=1)
    from singerlake.lake import Lake

    snapshot = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.a")[0].snapshot()
    assert [block.rows for block in snapshot.blocks] == [10, 10, 5]
    assert [block.number for block in snapshot.blocks] == [1, 2, 3]
    assert len(data_files(tmp_path / "lake")) == 3  # each block is larger than a file may be
    run(tmp_path / "one", lines, block_rows=10)
    assert len(data_files(tmp_path / "one")) == 1


def test_the_order_of_blocks_is_known_without_the_log(tmp_path: Path) -> None:
    """Each block's header says when it was made: strictly later than the one before."""
    lake = tmp_path / "lake"
    other = {"id": {"type": "integer"}, "x": {}}
    lines = []
    for n in range(30):
        lines += [schema("a", other if n % 2 else None), record("a", {"id": n})]
    run(lake, lines, file_bytes=1)
    [log] = lake.rglob("transactions")
    shutil.rmtree(log)
    (log.parent / "manifest.json").unlink()
    assert [r["id"] for r in records_of(lake, "a")] == list(range(30))


def test_25000_records_of_one_second_in_many_files(tmp_path: Path) -> None:
    lines = [schema("a")] + [record("a", {"id": n}) for n in range(25_000)]
    run(tmp_path / "lake", lines, block_rows=100, file_bytes=1)
    names = [path.name for path in data_files(tmp_path / "lake")]
    assert len(names) == len(set(names)) == 250
    assert {name.split("-")[1] for name in names} == {"20260102T030405000006Z"}
    assert [r["id"] for r in records_of(tmp_path / "lake", "a")] == list(range(25_000))
    # A second run of the same second takes no name that is taken.
    run(tmp_path / "lake", lines, block_rows=100, file_bytes=1)
    assert len(records_of(tmp_path / "lake", "a")) == 50_000
    assert len(data_files(tmp_path / "lake")) == 500


@pytest.mark.parametrize(
    ("own", "given_"),
    [
        ("2020-08-19T13:01:56.245769", "2020-08-19T13:01:56.245769Z"),
        ("2020-08-19T15:01:56+02:00", "2020-08-19T13:01:56.000000Z"),
        ("2020-08-19 13:01:56Z", "2020-08-19T13:01:56.000000Z"),
    ],
)
def test_a_record_without_time_gets_its_own(tmp_path: Path, own: str, given_: str) -> None:
    line = record("a", {"id": 1, "_sdc_extracted_at": own}, time_extracted="absent")
    run(tmp_path / "lake", [schema("a"), line])
    [landed] = lines_of(tmp_path / "lake", "a")
    assert landed == line[:-1] + f', "time_extracted": "{given_}"}}'.encode()


@pytest.mark.parametrize("end", [b"", b"\r"])
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("said", ["nothing", "by the last", "otherwise by the last"])
def test_many_records_without_time_get_one_each(
    tmp_path: Path, said: str, streams: int, end: bytes
) -> None:
    """Taken many at once, each line is what it would be on its own, at its own place."""
    sent = []
    for n in range(60):
        body: dict[str, Any] = {"id": n, "x": "}\\n{ ü"}
        if said == "by the last" and n >= 57:
            body["_sdc_extracted_at"] = NOW
        line = record(f"s{n % streams}", body, time_extracted="absent")
        if said == "otherwise by the last" and n >= 57:
            line = line.replace(
                b'"x"', rb'"_sdc_extracted_\u0061t": "2026-01-02T03:04:05.000006Z", "x"'
            )
        sent.append(line + end)
    schemas = [schema(f"s{n}") + end for n in range(streams)]
    before = times.iso(times.now())
    run(tmp_path / "lake", [*schemas, *sent])
    after = times.iso(times.now())
    for stream in range(streams):
        landed = lines_of(tmp_path / "lake", f"s{stream}")
        for n, line in zip(range(stream, 60, streams), landed, strict=True):
            stamp = json.loads(line)["time_extracted"]
            member = f', "time_extracted": "{stamp}"'.encode()
            assert line == sent[n].replace(b"}}", b"}" + member + b"}")
            if said != "nothing" and n >= 57:
                assert stamp == NOW
            else:
                assert before <= stamp <= after


@pytest.mark.parametrize("own", [None, 5, "yesterday", {"a": 1}])
def test_a_record_that_says_no_time_gets_the_present(tmp_path: Path, own: Any) -> None:
    before = times.iso(times.now())
    line = record("a", {"id": 1, "_sdc_extracted_at": own}, time_extracted="absent")
    run(tmp_path / "lake", [schema("a"), line])
    stamp = json.loads(lines_of(tmp_path / "lake", "a")[0])["time_extracted"]
    assert before <= stamp <= times.iso(times.now())


@pytest.mark.parametrize("stamp", [None, "yesterday", ""])
def test_a_time_that_is_there_stays_whatever_it_says(tmp_path: Path, stamp: Any) -> None:
    lines = [schema("a"), record("a", {"id": 1}, time_extracted=stamp)]
    run(tmp_path / "lake", lines)
    assert lines_of(tmp_path / "lake", "a") == lines[1:]


def test_first_and_last_name_the_file(tmp_path: Path) -> None:
    lines = [schema("a")] + [
        record("a", {"id": n}, time_extracted=f"2026-01-0{n}T00:00:00+01:00") for n in (3, 1, 2)
    ]
    run(tmp_path / "lake", lines)
    [path] = data_files(tmp_path / "lake")
    front, _, end = path.name.rpartition("-")
    assert front == "a-20260102T230000000000Z-20260101T230000000000Z"
    assert re.fullmatch(r"[0-9a-f]{16}\.singer\.gz", end)


def test_duplicate_keys_of_the_envelope(tmp_path: Path) -> None:
    twice = (
        b'{"type":"RECORD","stream":"a","stream":"b","record":{"id":"no"},"record":{"id":1},'
        b'"time_extracted":null,"time_extracted":"2026-01-01T00:00:00Z"}'
    )
    run(tmp_path / "lake", [schema("a"), schema("b"), record("a", {"id": 0}), twice])
    # As every JSON reader has it, the last counts; and the line stays as it is.
    assert lines_of(tmp_path / "lake", "b") == [twice]


@pytest.mark.parametrize("stream", ["entry", "generationmix", "region"])
def test_captured_api_data_lands_exactly(tmp_path: Path, stream: str) -> None:
    path = DATA / f"carbon-{stream}.singer.jsonl"
    if not path.is_file():
        pytest.skip(f"the captured data does not exist: {path.name}")
    lines = path.read_bytes().splitlines()
    run(tmp_path / "lake", lines, block_rows=1000)
    expected = []
    for line in lines:
        message = json.loads(line)
        if message["type"] != "RECORD":
            continue
        assert "time_extracted" not in message
        instant = times.parse(message["record"]["_sdc_extracted_at"])
        assert instant is not None
        expected.append(line[:-1] + f', "time_extracted": "{times.iso(instant)}"}}'.encode())
    assert len(expected) > 10
    assert lines_of(tmp_path / "lake", stream) == expected


def test_all_captured_streams_in_one_run(tmp_path: Path) -> None:
    paths = sorted(DATA.glob("carbon-*.singer.jsonl"))
    if not paths:
        pytest.skip("the captured data does not exist")
    files = [path.read_bytes().splitlines() for path in paths]
    longest = max(map(len, files))
    lines = [lines[n] for n in range(longest) for lines in files if n < len(lines)]
    run(tmp_path / "lake", lines, block_rows=500)
    assert_landed(tmp_path / "lake", lines)
