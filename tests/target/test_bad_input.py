"""One error that names line, stream and field; what was committed stays, nothing else shows."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from singer_sdk.exceptions import (
    InvalidJSONSchema,
    InvalidRecord,
    MissingKeyPropertiesError,
    RecordsWithoutSchemaException,
)
from singer_sdk.singerlib.exceptions import InvalidInputLine

from singerlake.errors import InputError, InvalidNameError, UsageError
from singerlake.format.types import Columns, columns_of
from singerlake.lake import Lake, Table
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.blocks import decoding
from target_singerlake import messages
from target_singerlake.chunk import Chunk
from target_singerlake.errors import InvalidLineError, InvalidSchemaError
from target_singerlake.target import TargetSingerlake
from tests.cli import call
from tests.target.harness import (
    TAP,
    command,
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

GOOD = [schema("a", keys=["id"]), schema("b"), record("a", {"id": 1}), record("b", {"id": 1})]
REC = b'{"type":"RECORD","stream":"a","record":'

CASES: list[tuple[str, bytes, type[Exception], str]] = [
    ("not json", b"hello", InvalidInputLine, "line 5 is not JSON"),
    ("cut", b'{"type":"RECORD","stream":"a","rec', InvalidInputLine, "line 5 is not JSON"),
    ("no object", b"[1]", InvalidInputLine, "line 5"),
    ("a number", b"17", InvalidInputLine, "line 5"),
    ("two on a line", record("a", {"id": 2}) * 2, InvalidInputLine, "line 5"),
    ("no type", b'{"stream":"a"}', InvalidInputLine, "line 5 has no type"),
    ("unknown", b'{"type":"HELLO"}', InvalidInputLine, "line 5 has an unknown type"),
    ("type twice", b'{"type":"RECORD","type":"STATE","value":1}', InvalidInputLine, "line 5"),
    ("no stream", b'{"type":"RECORD","record":{}}', InvalidInputLine, "line 5.*stream"),
    ("no record", b'{"type":"RECORD","stream":"a"}', InvalidInputLine, "line 5.*record"),
    ("odd time", REC + b'{"id":2},"time_extracted":5}', InvalidInputLine, "line 5.*time_extracted"),
    ("odd version", REC + b'{"id":2},"version":"x"}', InvalidInputLine, "line 5.*version"),
    (
        "version past 64 bits",
        REC + b'{"id":2},"version":9223372036854775808}',
        InvalidInputLine,
        "line 5 has a version that is not a 64-bit integer",
    ),
    (
        "activation past 64 bits",
        b'{"type":"ACTIVATE_VERSION","stream":"a","version":-9223372036854775809}',
        InvalidInputLine,
        "line 5 has a version that is not a 64-bit integer",
    ),
    ("not utf-8", REC + b'{"id":2,"x":"\xff"}}', InvalidInputLine, "line 5 is not UTF-8"),
    ("surrogate", REC + b'{"id":2,"x":"\\ud800"}}', InvalidInputLine, "line 5"),
    ("raw control", REC + b'{"id":2,"x":"\x01"}}', InvalidInputLine, "line 5"),
    ("NaN", REC + b'{"id":NaN}}', InvalidInputLine, "line 5"),
    ("leading zero", REC + b'{"id":2,"x":01}}', InvalidInputLine, "line 5"),
    (
        "too deep",
        REC + b"[" * 200_000 + b"]" * 200_000 + b"}",
        InvalidInputLine,
        "line 5 is nested more than 800 levels deep",
    ),
    (
        "just too deep",
        REC + b'{"id":2,"x":%b}}' % (b"[" * 799 + b"]" * 799),
        InvalidInputLine,
        "line 5 is nested more than 800 levels deep",
    ),
    ("before schema", record("c", {}), RecordsWithoutSchemaException, "line 5.*'c'"),
    (
        "activation before schema",
        b'{"type":"ACTIVATE_VERSION","stream":"c","version":1}',
        RecordsWithoutSchemaException,
        "line 5.*'c'",
    ),
    ("missing key", record("a", {"x": 1}), MissingKeyPropertiesError, "line 5.*'a'.*'id'"),
    ("invalid", record("b", {"id": "x"}), InvalidRecord, "line 5.*'b'.*field 'id'"),
    ("no object as record", record("b", [1]), InvalidRecord, "line 5.*'b'.*not an object"),
    ("state without value", b'{"type":"STATE"}', InvalidInputLine, "line 5.*value"),
    (
        "no properties",
        b'{"type":"SCHEMA","stream":"c","schema":{}}',
        InvalidInputLine,
        "line 5.*'c'",
    ),
    ("schema no object", b'{"type":"SCHEMA","stream":"c","schema":[]}', InvalidInputLine, "line 5"),
    ("no schema", schema("c", {"x": {"type": "no"}}), InvalidJSONSchema, "line 5.*'c'"),
    (
        "batch that cannot be read",
        b'{"type":"BATCH","stream":"a","encoding":{},"manifest":["../x"]}',
        InvalidInputLine,
        "line 5: the BATCH of stream 'a': ",
    ),
    (
        "deep schema",
        b'{"type":"SCHEMA","stream":"c","schema":{"properties":{"a":%s%s}}}'
        % (b'{"items":' * 3000 + b"{}", b"}" * 3000),
        InputError,
        "line 5",
    ),
    (
        "endless digits in a schema",
        b'{"type":"SCHEMA","stream":"c","schema":{"properties":{},"x":%s}}' % (b"1" * 9999),
        InputError,
        "line 5",
    ),
]


@pytest.mark.parametrize("position", ["alone", "among many"])
@pytest.mark.parametrize(
    ("line", "kind", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_one_error_and_nothing_partial(
    tmp_path: Path, line: bytes, kind: type[Exception], words: str, position: str
) -> None:
    lake = tmp_path / "lake"
    more = [] if position == "alone" else [record("b", {"id": n}) for n in range(50)]
    with pytest.raises(kind, match=words) as caught:
        run(lake, [*GOOD, line, *more, state(1)])
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800
    assert run.states == []  # type: ignore[attr-defined]
    assert tables(lake) == {}
    assert data_files(lake) == []
    assert leftovers(lake) == []


@pytest.mark.parametrize("validate", [True, False])
def test_a_schema_of_any_depth_is_taken_or_refused_in_words(tmp_path: Path, validate: bool) -> None:
    refused = []
    for depth in (100, 796, 797, 798, 20_000):
        nested = b'{"items":' * depth + b"{}" + b"}" * depth
        line = b'{"type":"SCHEMA","stream":"c","schema":{"properties":{"a":%s}}}' % nested
        try:
            run(tmp_path / str(depth), [line, record("c", {"a": 1})], validate_records=validate)
        except InputError as error:
            assert "line 1" in str(error)
            refused.append(depth)
    assert refused[-2:] == [798, 20_000]


def test_a_key_that_is_no_property_is_refused(tmp_path: Path) -> None:
    lines = [schema("a", {"id": {"type": "integer"}}, ["id", "zz"]), record("a", {"id": 1})]
    with pytest.raises(InvalidSchemaError, match="names the key zz, but no such property"):
        run(tmp_path / "lake", lines)
    assert not data_files(tmp_path / "lake")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("{", "cannot be read as JSON"),
        ('{"lak": "x"}', "has no setting 'lak': did you mean lake or new_lake_version?"),
    ],
)
@pytest.mark.parametrize("form", ["--config {}", "--config={}"])
def test_a_config_that_is_no_use_is_one_line(
    tmp_path: Path, text: str | None, words: str, form: str
) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    command = [sys.executable, "-m", "target_singerlake", *form.format(path).split()]
    done = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    [line] = done.stderr.decode().splitlines()
    assert words in line
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("processes")
def test_settings_come_as_text_and_through_a_pipe(tmp_path: Path) -> None:
    secret = "hunter2"
    # One of the SDK's is almost called as one of ours, and Meltano always sends it.
    more = {"commit_minutes": 0.5, "lock_wait_seconds": 2.5, "validate_records": True}
    text = json.dumps({"lake": "lake", "tap_id": "tap-test", **more})
    data = b"".join(line + b"\n" for line in GOOD)
    for options in (f"--config '{text}'", f"--config <(echo '{text}')", f"--config='{text}'"):
        shell = ["bash", "-c", f"{sys.executable} -m target_singerlake {options}"]
        done = subprocess.run(shell, input=data, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
    assert len(records_of(tmp_path / "lake", "a")) == 3
    broken = [sys.executable, "-m", "target_singerlake", "--config", f'{{"x": "{secret}",}}']
    done = subprocess.run(broken, input=b"", capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    [line] = done.stderr.decode().splitlines()
    assert "the text behind --config cannot be read as JSON" in line
    assert secret not in line


def test_what_was_committed_before_stays_with_its_state(tmp_path: Path) -> None:
    lines = [*GOOD, state(1), record("a", {"id": 2}), state(2), record("a", {"no": 1}), state(3)]
    with pytest.raises(MissingKeyPropertiesError, match="line 8"):
        run(tmp_path / "lake", lines, commit_minutes=0)
    assert run.states == [1, 2]  # type: ignore[attr-defined]
    assert tables(tmp_path / "lake") == {"a": 2, "b": 1}
    assert len(lines_of(tmp_path / "lake", "a")) == 2


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_the_first_bad_line_of_many_is_named(tmp_path: Path, monkeypatch: Any, chunk: int) -> None:
    monkeypatch.setattr("target_singerlake.reader.CHUNK", chunk)
    lines = [schema("a"), schema("b")]
    lines += [record("ab"[n % 2], {"id": n}) for n in range(100)]
    lines[70], lines[31], lines[90] = (
        record("a", {"id": "x"}),
        record("b", {"id": "y"}),
        b"nonsense",
    )
    # A line that is no JSON is found as its chunk is read, before the records are looked at.
    with pytest.raises(InputError, match="line 32.*'b'.*field 'id'"):
        run(tmp_path / "lake", lines)


@pytest.mark.parametrize("blank", [b"", b"   ", b"\r"])
def test_blank_lines_count_but_mean_nothing(tmp_path: Path, blank: bytes) -> None:
    with pytest.raises(InputError, match="line 5"):
        run(tmp_path / "lake", [schema("a"), blank, record("a", {"id": 1}), blank, b"x"])
    run(tmp_path / "lake", [blank, schema("a"), blank, record("a", {"id": 1}), blank])
    assert len(lines_of(tmp_path / "lake", "a")) == 1


@pytest.mark.parametrize(
    "stream",
    ["", "x" * 300, "ü" * 61, "\ud800"],
    ids=["empty", "long", "long encoded", "surrogate"],
)
def test_a_stream_name_that_has_no_place(tmp_path: Path, stream: str) -> None:
    with pytest.raises(InputError, match="line 1"):
        run(tmp_path / "lake", [schema(stream)])
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "stream",
    [
        "..",
        ".",
        "catalogue.json",
        "a/../../b",
        "nul",
        "NUL\x00",
        "a\nb",
        "transactions",
        "manifest.json",
        "a.2",
        'quo"te\\',
        "%2E",
        "x" * 180,
        "singerlake.lock",
        ".staging",
    ],
)
def test_a_stream_name_of_any_kind_stays_in_its_folder(tmp_path: Path, stream: str) -> None:
    lines = [schema(stream), record(stream, {"id": 1}), record(stream, {"id": 2})]
    run(tmp_path / "lake", lines)
    assert lines_of(tmp_path / "lake", stream) == lines[1:]
    assert [p.name for p in tmp_path.iterdir()] == ["lake"]
    assert {p.name for p in (tmp_path / "lake").iterdir()} == {"raw", ".staging"}
    [path] = data_files(tmp_path / "lake")
    assert len(path.relative_to(tmp_path / "lake" / "raw").parts) == 4


@pytest.mark.parametrize(
    ("config", "kind", "words"),
    [
        ({"tap_id": "tap.x"}, InvalidNameError, "dot"),
        ({"tap_id": ""}, UsageError, "tap_id"),
        ({}, UsageError, "Set tap_id"),
        ({"tap_id": "x", "lake": "ftp://there"}, UsageError, "ftp"),
    ],
)
def test_settings_that_cannot_be(
    tmp_path: Path, monkeypatch: Any, config: dict[str, Any], kind: type[Exception], words: str
) -> None:
    monkeypatch.delenv("MELTANO_EXTRACTOR_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=words):
        TargetSingerlake(config=config).listen(io.StringIO(schema("a").decode()))
    assert list(tmp_path.iterdir()) == []


def test_meltano_says_whose_streams_these_are(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MELTANO_EXTRACTOR_NAME", "tap-shop")
    monkeypatch.setenv("SINGERLAKE_LAKE", str(tmp_path / "lake"))
    TargetSingerlake(config={}).listen(io.StringIO(schema("a").decode()))
    assert lines_of(tmp_path / "lake", "a", tap="tap-shop") == []


fragments = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"\\",
        b"\n",
        b"\r",
        b" ",
        b"1",
        b"-",
        b"e",
        b".",
        b"0",
        b"null",
        b"tru",
        b'"type"',
        b'"RECORD"',
        b'"stream"',
        b'"record"',
        b'"a"',
        b"\x00",
        b"\xc3",
        b'{"type":"RECORD","stream":"a","record":{"id":1}}',
        b'{"type":"STATE","value":{"x":"}',
    ],
)


@settings(max_examples=500, deadline=None)
@given(st.lists(fragments, max_size=12).map(b"".join))
@example(b'{"type":"STATE","value":{"x":"}\n{"}}')
@example(b'{"type":"STATE","value":\n{}}{"type":"STATE","value":{}}')
@example(b'{"type":"STATE","value":\r\n{}}{"type":"STATE","value":{}}\r')
@example(REC + b"{}}\n" + REC + b"{}}")
@example(REC + b"{}}\n" + REC + b"{}\n}")
@example(REC + b"{}}" + REC + b"{}}\n" + REC + b"{}\n}")
@example(REC + b'{}, "x":{}\n' + REC + b"{}}}" + REC + b"{}}")
def test_a_chunk_is_taken_line_by_line_or_not_at_all(data: bytes) -> None:
    """What is decoded many at a time is what each line alone decodes to, and is JSON."""
    data += b"\n"
    chunk = Chunk(data)
    if chunk.records:
        assert Chunk(data).plain
    elif not chunk.plain:
        return
    found = chunk.decode(messages.ANY)
    if found is None:
        return
    assert chunk.count == len(chunk.lines) == len(found)
    assert b"".join(chunk.lines) == data
    for line, message in zip(chunk.lines, found, strict=True):
        assert json.loads(line)["type"] == type(message).__struct_config__.tag
        again = messages.decode_line(line, 1)
        assert type(again) is type(message)


@settings(max_examples=500, deadline=None)
@given(st.lists(fragments, max_size=8).map(b"".join))
@example(b"1.")
@example(b'"\\x"')
@example(b"[1,]")
@example(b"-")
def test_what_is_let_through_raw_is_json(value: bytes) -> None:
    line = b'{"type":"RECORD","stream":"a","record":' + value + b"}"
    try:
        messages.decode_line(line, 1)
    except InvalidLineError:
        return
    json.loads(line)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_a_byte_order_mark_at_the_start_is_skipped(tmp_path: Path, ending: bytes) -> None:
    lines = [b"\xef\xbb\xbf" + schema("a"), record("a", {"id": 1})]
    run(tmp_path / "lake", (ending or b"\n").join(lines) + ending)
    assert records_of(tmp_path / "lake", "a") == [{"id": 1}]
    block = next(plain_reader(data_files(tmp_path / "lake")[0]))
    assert block["type"] == "SCHEMA"
    with pytest.raises(InvalidLineError, match="line 2"):
        run(tmp_path / "other", [schema("a"), b"\xef\xbb\xbf" + record("a", {"id": 1})])
    assert run(tmp_path / "nothing", b"\xef\xbb\xbf") == []


@pytest.mark.usefixtures("processes")
def test_a_byte_order_mark_is_skipped_however_it_comes(tmp_path: Path) -> None:
    args, env = command(tmp_path / "lake")
    with subprocess.Popen(args, stdin=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        for piece in (b"\xef", b"\xbb", b"\xbf{", schema("a")[1:] + b"\n"):
            process.stdin.write(piece)
            process.stdin.flush()
            time.sleep(0.05)
        process.stdin.write(record("a", {"id": 1}))
    assert process.returncode == 0
    assert records_of(tmp_path / "lake", "a") == [{"id": 1}]


def test_a_refused_record_names_the_setting_that_would_take_it(tmp_path: Path) -> None:
    """Only where it would: keys are needed, and a record is an object, whatever is set."""
    date = {"at": {"type": "string", "format": "date-time"}, "id": {"type": "integer"}}
    date["n"] = {"type": "integer"}
    start = [schema("a", date, ["id"])]
    cases = [
        ({"id": 1, "n": "x"}, {}, "validate_records: false"),
        ({"id": 1, "at": "x"}, {"validate_formats": True}, "validate_formats: false"),
        ({"id": 1, "n": "x"}, {"validate_formats": True}, "validate_records: false"),
        ({"at": "x"}, {}, ""),
        ([1], {}, ""),
    ]
    for number, (wrong, config, words) in enumerate(cases):
        with pytest.raises(InputError) as caught:
            run(tmp_path / str(number), [*start, record("a", wrong)], **config)
        assert ("validate_" in str(caught.value)) is bool(words)
        assert words in str(caught.value)
        if words:
            off = words.partition(":")[0]
            run(tmp_path / str(number), [*start, record("a", wrong)], **{**config, off: False})


ROW = {"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": "integer"}}}
ROOTS = {
    "allOf": {"allOf": [ROW, {"properties": {"at": {"type": "string", "format": "date"}}}]},
    "$ref": {"$ref": "#/definitions/row", "definitions": {"row": ROW}},
}


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
@pytest.mark.parametrize("mapped", [False, True])
def test_a_schema_whose_properties_are_put_together_is_taken(
    tmp_path: Path, root: dict[str, Any], mapped: bool
) -> None:
    message = {"type": "SCHEMA", "stream": "s", "schema": root, "key_properties": ["id"]}
    lines = [json.dumps(message).encode(), record("s", {"id": 1, "n": 2})]
    config = {"stream_maps": {"s": {"more": "str(id)"}}} if mapped else {}
    run(tmp_path / "lake", lines, **config)
    expected = {"id": 1, "n": 2, **({"more": "1"} if mapped else {})}
    assert records_of(tmp_path / "lake", "s") == [expected]
    table, _ = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.s")
    columns = columns_of(table.snapshot().schema)
    assert {"id": "int64", "n": "int64"}.items() <= {n: str(t) for n, t in columns}.items()
    [row] = read_whole(table, columns).to_pylist()
    names = [name for name, _ in columns]
    assert (row[alias(names.index("id"))], row[alias(names.index("n"))]) == (1, 2)
    with pytest.raises(InvalidRecord, match="field 'n'"):
        run(tmp_path / "lake", [lines[0], record("s", {"id": 1, "n": "x"})], **config)
    message["key_properties"] = ["no"]
    with pytest.raises(InvalidJSONSchema, match="the key no"):
        run(tmp_path / "lake", [json.dumps(message).encode()], **config)


def read_whole(table: Table, columns: Columns) -> Any:
    """The rows of a table's one block, as a query reads them."""
    [block] = table.snapshot().blocks
    path = Path(table.store.uri, table.name.data(block.file))
    with gzip.open(path) as file:
        return decoding.read(file.read(), decoding.BlockSpec("block 1", block, columns, columns))


@pytest.mark.parametrize("spec", [{"type": "object"}, {"type": ["null", "object"]}])
def test_a_schema_of_any_object_is_taken_as_one_of_no_property(tmp_path: Path, spec: Any) -> None:
    lake, rows = tmp_path / "lake", [{"_id": "1", "a": "x"}, {"_id": "2", "a": {"b": 1}}]
    message = {"type": "SCHEMA", "stream": "s", "schema": spec, "key_properties": []}
    run(lake, [json.dumps(message).encode(), *(record("s", row) for row in rows)])
    assert records_of(lake, "s") == rows
    assert call.run(str(lake), "freeze", f"{TAP}.s").exit_code == 0
    assert call.run(str(lake), "show", f"{TAP}.s").exit_code == 0
    message["key_properties"] = ["_id"]
    with pytest.raises(InvalidJSONSchema, match="key _id, but no such property: have the tap"):
        run(lake, [json.dumps(message).encode()])


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_schema_whose_properties_are_elsewhere_is_refused(tmp_path: Path, word: str) -> None:
    spec = {"type": "object", word: [{"properties": {"a": {"type": "string"}}}]}
    message = {"type": "SCHEMA", "stream": "s", "schema": spec, "key_properties": []}
    with pytest.raises(InvalidInputLine, match="has no properties, so it declares no columns"):
        run(tmp_path / "lake", [json.dumps(message).encode()])
