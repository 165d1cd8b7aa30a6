"""Refused lines are put aside, byte for byte and before the rest is committed; the run goes on."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import InputError, StoreError
from singerlake.format import messages
from singerlake.format.names import TableName
from singerlake.format.refused_lines import SCHEMA
from singerlake.lake import Lake
from target_singerlake.run import Run
from tests.cli import call
from tests.target.harness import (
    TAP,
    activate,
    lines_of,
    process,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
    text,
)

GOOD = [schema("a", keys=["id"]), schema("b"), record("a", {"id": 1}), record("b", {"id": 1})]
REC = b'{"type":"RECORD","stream":"a","record":'


def quarantine(lake: Path, data: bytes | list[bytes], **config: Any) -> list[Any]:
    return run(lake, data, invalid_records="quarantine", **config)


def kept(lake: Path, stream: str) -> list[tuple[int, bytes]]:
    """The lines in a table of refused lines, with their numbers."""
    found = []
    for row in records_of(lake, stream):
        as_text, encoded = row["message"], row["message_base64"]
        assert (as_text is None) is not (encoded is None)
        line = base64.b64decode(encoded) if as_text is None else as_text.encode("utf-8")
        found.append((row["line"], line))
    return found


A_LINES = [
    record("a", {"id": "x"}),
    record("a", {"other": 1}),
    record("a", [1]),
    REC + b'{"id":2},"time_extracted":5}',
    REC + b'{"id":2},"version":9223372036854775808}',
    REC + b'{"id":2,"x":"\xff"}}',
    REC + b'{"id":2,"x":"\\ud800"}}',
    REC + b'{"id":NaN}}',
    REC + b'{"id":2,"x":01}}',
    REC + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"type": "RECORD", "stream": "a", "rec',
    record("a", {"id": 2}) * 2,
    b'{"stream":"a"}',
    b'{"type":"HELLO","stream":"a"}\r',
    b'{"type":"RECORD","stream":"a"}',
]
"""Refused lines that name a stream."""
OTHER_LINES = [
    b"Downloading 3 files \x00\x1b[1m",
    b"\xff\xfe not text",
    b"17",
    b"[1]",
    record("c", {}),
    b'{"type":"RECORD","record":{}}',
    b'{"type":"RECORD","stream":"a\xff","record":{"id":2}}',
    record("c\ud800".encode("utf-16", "surrogatepass").decode("latin-1"), {}),
]


@pytest.mark.parametrize("apart", [True, False], ids=["among many", "together"])
def test_refused_lines_are_kept_byte_for_byte_and_all_others_are_taken(
    tmp_path: Path, apart: bool
) -> None:
    lake, data, a_lines, others = tmp_path / "lake", [*GOOD], [], []
    good = [1]
    for number, line in enumerate([*A_LINES, *OTHER_LINES], start=2):
        data.append(line)
        (a_lines if line in A_LINES else others).append((len(data), line))
        if apart:
            data += [record("a", {"id": number})] * 20
            good += [number] * 20
    assert quarantine(lake, [*data, state(7)]) == [7]
    assert kept(lake, "a__rejected") == a_lines
    assert kept(lake, "__rejected") == others
    assert [row["id"] for row in records_of(lake, "a")] == good
    assert [row["id"] for row in records_of(lake, "b")] == [1]
    rows = records_of(lake, "a__rejected")
    assert rows[0]["reason"].startswith("the record of stream 'a', field 'id': ")
    assert {row["stream"] for row in rows} == {"a"}
    assert {row["stream"] for row in records_of(lake, "__rejected")} >= {None, "c"}


@pytest.mark.usefixtures("many_cases")
@given(st.binary(max_size=40).filter(lambda line: b"\n" not in line and line.strip()))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_kept_or_end_the_run(tmp_path_factory: Any, line: bytes) -> None:
    lake = tmp_path_factory.mktemp("any") / "lake"
    data = [schema("a"), REC + b'{"id":' + line + b"}}", record("a", {"id": 5})]
    try:
        quarantine(lake, data)
    except InputError:
        assert b'"type"' in line or b"\\" in line
        return
    stored = [json.loads(b'{"id":' + line + b"}")] if "a__rejected" not in tables(lake) else []
    assert len(records_of(lake, "a")) == 1 + len(stored)
    if not stored:
        assert kept(lake, "a__rejected") == [(2, data[1])]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"SCHEMA","stream":"c","schema":{"properties":{"type":{"ty',
        b'{"stream":"c","schema":{"type":"object","prop',
        b'{"type":"STATE"}',
        b'{"type":"ST\\u0041TE"}',
        b'{"type":"RECORD","type":"STATE","value":1}',
        record("a", {"id": 2}) + schema("a", {}),
        activate("c", 1),
        b'{"type":"ACTIVATE_VERSION","stream":"a","version":"x"}',
        b'{"type":"BATCH","stream":"a","encoding":{},"manifest":["no such file"]}',
        b'{"type":"BATCH","stream":"a","encoding":{},"manifest":5}',
        schema("c", {"x": {"type": "no"}}),
    ],
)
def test_what_may_say_what_others_mean_ends_the_run(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(InputError, match="line 5"):
        quarantine(tmp_path / "lake", [*GOOD, line, record("b", {"id": 1}), state(1)])
    assert tables(tmp_path / "lake") == {}


def test_as_many_as_max_invalid(tmp_path: Path) -> None:
    bad = [record("b", {"id": "x"}), record("b", {"id": "y"})]
    assert quarantine(tmp_path / "two", [*GOOD, *bad, state(1)], max_invalid=2) == [1]
    with pytest.raises(InputError, match=r"line 7 .*with it, 3 lines .* max_invalid allows 2"):
        quarantine(tmp_path / "lake", [*GOOD, *bad, b"oops", state(1)], max_invalid=2)
    assert tables(tmp_path / "lake") == {}


def test_a_line_that_comes_again_is_the_same_row(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for time in ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"):  # as taps that say when
        bad = record("a", {"id": "x"}, time_extracted=time)
        quarantine(lake, [*GOOD, bad, b"oops", state(1)])
    rows = records_of(lake, "a__rejected")
    assert len(rows) == 2
    assert rows[0]["digest"] == rows[1]["digest"]
    assert len({row["digest"] for row in records_of(lake, "__rejected")}) == 1
    key = Lake.open(str(lake)).table(TableName(TAP, "a__rejected")).snapshot().schema.key_properties
    assert key == ["digest"]


@pytest.mark.parametrize("fails", ["a", "a__rejected"])
def test_refused_lines_are_committed_before_the_others_and_these_before_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    lake, commit = tmp_path / "lake", Run._commit_stream
    data = [*GOOD[:1], record("a", {"id": 1}), record("a", {"id": "x"}), state(1)]

    def failing(self: Run, stream: Any) -> Any:
        if stream.table.stream == fails:
            raise StoreError("pulled out")
        return commit(self, stream)

    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(Run, "_commit_stream", failing)
        quarantine(lake, data)
    assert tables(lake) == ({"a__rejected": 1} if fails == "a" else {})
    assert run.states == []  # type: ignore[attr-defined]
    assert quarantine(lake, data) == [1]
    assert len({row["digest"] for row in records_of(lake, "a__rejected")}) == 1
    assert records_of(lake, "a") == [{"id": 1}]


def test_what_was_mended_is_kept_as_it_came(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    bad = [REC + b'{"id":NaN}}', REC + b'{"id":Infinity}}']
    more = [record("a", {"id": n}) for n in range(50)]
    quarantine(lake, [GOOD[0], *bad, *more, state(1)], non_finite="null")
    assert kept(lake, "a__rejected") == [(2, bad[0]), (3, bad[1])]
    assert len(records_of(lake, "a")) == 50


def test_of_what_a_map_refuses_nothing_is_stored_and_its_line_is(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    maps = {
        "a": {"id": "int(id)", "__else__": None},
        "copy": {"__source__": "a", "half": "str(10 / int(id))"},
    }
    properties = {"id": {"type": "string"}}
    data = [schema("a", properties), record("a", {"id": "5"}), record("a", {"id": "0"})]
    quarantine(lake, [*data, state(1)], stream_maps=maps)
    assert [row["id"] for row in records_of(lake, "a")] == [5]
    assert kept(lake, "a__rejected") == [(3, data[2])]


def test_a_stream_of_the_tap_is_not_in_the_place_of_refused_lines(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, [schema("a__rejected"), record("a__rejected", {"id": 1})])
    quarantine(lake, [schema("a"), record("a", {"id": "x"}), state(1)], tap_id="other")
    [row] = [json.loads(line) for line in lines_of(lake, "a__rejected", "other")]
    again = json.dumps({**row, "stream": "a__rejected"}).encode()
    announced = messages.schema_line("a__rejected", SCHEMA).rstrip()  # as tap-singerlake brings it
    quarantine(
        tmp_path / "copy", [announced, schema("a"), again, record("a", {"id": "y"}), state(1)]
    )
    assert len(kept(tmp_path / "copy", "a__rejected")) == 2
    with pytest.raises(InputError, match="line 1: .*a__rejected.*rename it with a stream map"):
        quarantine(tmp_path / "other", [schema("a__rejected")])


def test_a_stream_whose_name_has_no_room(tmp_path: Path) -> None:
    name = "n" * 175
    quarantine(tmp_path / "lake", [schema(name), record(name, {"id": "x"}), state(1)])
    [row] = records_of(tmp_path / "lake", "__rejected")
    assert row["stream"] == name


@pytest.mark.usefixtures("processes")
def test_the_last_line_says_so_and_ls_counts_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    secret = record("a", {"id": "hunter2"})
    done = process(lake, text([*GOOD, secret, state(1)]), invalid_records="quarantine")
    assert done.returncode == 0
    said = done.stderr.decode()
    assert "hunter2" not in said
    assert "committed 2 records to 2 tables" in said
    assert "rejected 1 line" in said
    last = said.splitlines()[-1]
    assert f"quarantined: 1 line in {TAP}.a__rejected (the first is line 5)" in last
    listed = {row["table"]: row["rejected"] for row in call.run_json(str(lake), "ls")}
    assert listed == {f"{TAP}.a": 1, f"{TAP}.b": 0, f"{TAP}.a__rejected": 0}
    assert "rejected" in call.run(str(lake), "ls").output
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "clean", [*GOOD, state(1)], invalid_records="quarantine")
    assert not [text for text in caplog.messages if not text.startswith("METRIC")]
    assert "rejected" not in call.run(str(tmp_path / "clean"), "ls").output


OWN = [schema("a__rejected", keys=["id"]), record("a__rejected", {"id": 7})]
"""A stream of the tap's own, which a run that fails at refused lines takes as any other."""


def test_refused_lines_never_go_into_a_table_of_the_taps_own(tmp_path: Path) -> None:
    lake, bad = tmp_path / "lake", record("a", {"id": "x"})
    run(lake, [*GOOD, *OWN])
    assert quarantine(lake, [*GOOD, bad, state(1)]) == [1]
    assert records_of(lake, "a__rejected") == [{"id": 7}]
    assert [row["stream"] for row in records_of(lake, "__rejected")] == ["a"]
    assert kept(lake, "__rejected") == [(5, bad)]
    both = tmp_path / "both"
    run(both, [*GOOD, *OWN, schema("__rejected"), record("__rejected", {"id": 1})])
    said = r"__rejected, their dead-letter table, belongs to a stream of the tap: rename"
    with pytest.raises(InputError, match=said):
        quarantine(both, [*GOOD, bad, state(1)])


def test_rows_of_the_taps_own_are_not_counted_as_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, [*GOOD, *OWN, schema("__rejected"), record("__rejected", {"id": 1})])
    listed = call.run_json(str(lake), "ls")
    assert {row["table"]: row["rejected"] for row in listed} == {
        f"{TAP}.{stream}": 0 for stream in ("__rejected", "a", "a__rejected", "b")
    }
    said = call.run(str(lake), "metrics").output.splitlines()
    counted = [line for line in said if line.startswith("singerlake_table_rejected_lines{")]
    assert len(counted) == 4
    assert all(line.endswith(" 0") for line in counted)
