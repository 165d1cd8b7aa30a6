"""Blocks say that their types are proved just where they are, however their lines came."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from singerlake.format import block as format_block
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.types import columns_of
from singerlake.lake import Lake
from singerlake.log import blocks as stored
from singerlake.rows.blocks import type_prover
from target_singerlake import reader
from target_singerlake.validation import Validator
from tests.rows.test_proved_types import WIDE, odd_lines
from tests.target.harness import TAP, activate, record, run, schema, state

WHOLE: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}


def said(lake: Path, stream: str = "s") -> list[bool]:
    """Which blocks of a table say that their types are proved; theirs are."""
    opened = Lake.open(str(lake))
    name = TableName(TAP, stream)
    found = []
    for block in opened.table(name).snapshot().blocks:
        data = stored.fetch(opened.store, name, [block])
        proved = stored.proved_in(block, data)
        assert proved == format_block.says_proved(data)
        if proved:
            assert type_prover.block_proves(stored.inflate(name, block, data))
        found.append(proved)
    return found


def rows(count: int, **more: Any) -> list[bytes]:
    return [record("s", {"id": one, "name": f"n{one}"}, **more) for one in range(count)]


def test_what_one_decoding_proves_is_said(tmp_path: Path) -> None:
    lines = [schema("s", WHOLE), *rows(20), activate("s", 3), *rows(9), state(1)]
    run(tmp_path, b"\n".join(lines), block_rows=10)
    assert said(tmp_path) == [True, True, True]


def test_of_records_that_are_not_validated_nothing_is_said(tmp_path: Path) -> None:
    run(tmp_path, b"\n".join([schema("s", WHOLE), *rows(20)]), validate_records=False)
    assert said(tmp_path) == [False]


def test_streams_line_by_line_are_proved_too(tmp_path: Path) -> None:
    other = [record("t", {"id": one}) for one in range(20)]
    mixed = [line for both in zip(rows(20), other, strict=True) for line in both]
    run(tmp_path, b"\n".join([schema("s", WHOLE), schema("t", WHOLE), *mixed]))
    assert said(tmp_path) == said(tmp_path, "t") == [True]


@pytest.mark.parametrize(
    "odd",
    [
        '{"id": 1.0, "name": null}',
        '{"id": 9223372036854775808, "name": null}',
        '{"id": 1, "name": 5, "name": null}',
    ],
)
def test_what_was_decided_otherwise_leaves_its_block_unproved(tmp_path: Path, odd: str) -> None:
    line = b'{"type": "RECORD", "stream": "s", "record": %b}' % odd.encode()
    number = {**WHOLE, "id": {"type": "integer"}, "key": {"type": "integer"}}
    lines = [schema("s", number, []), *rows(10), line, *rows(10)]
    run(tmp_path, b"\n".join(lines), block_rows=100)
    assert said(tmp_path) == [False]


def test_a_few_lines_of_a_large_block_are_proved_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is no time is a string like others, as far as a parser goes."""
    monkeypatch.setattr(reader, "CHUNK", 400)
    timed = {**WHOLE, "at": {"type": "string", "format": "date-time"}}
    no_time, no_number = {"id": 1, "at": "soon"}, {"id": 1.0, "at": "2020-01-01"}

    def run_with(name: str, *odd: Any) -> list[bool]:
        lines = [*rows(100), *(record("s", one) for one in odd), *rows(100)]
        run(tmp_path / name, b"\n".join([schema("s", timed), *lines]), check_values=False)
        return said(tmp_path / name)

    assert run_with("small", no_time) == [False]
    monkeypatch.setattr(type_prover, "LEAST_BYTES", 1)
    assert run_with("large", no_time) == [True]
    assert run_with("many", *[no_time] * 50) == [False]
    assert run_with("other", no_number) == [False]


def test_what_a_map_makes_is_not_proved(tmp_path: Path) -> None:
    run(
        tmp_path,
        b"\n".join([schema("s", WHOLE), *rows(20)]),
        stream_maps={"s": {"id": "id", "name": "'x'", "__else__": None}},
    )
    assert said(tmp_path) == [False]


@pytest.mark.parametrize("timed", [True, False])
def test_files_of_records_are_proved(tmp_path: Path, timed: bool) -> None:
    good = [{"id": n, "name": "x"} for n in range(20)]
    odd = [*good, {"id": 1.0}]
    for number, some in enumerate((good, odd)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        file = folder / "batch.json.gz"
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, some)).encode()))
        message = {
            "type": "BATCH",
            "stream": "s",
            "encoding": {"format": "jsonl", "compression": "gzip"},
            "manifest": [file.as_uri()],
            **({"time_extracted": "2020-01-01T00:00:00Z"} if timed else {}),
        }
        lines = [schema("s", WHOLE), json.dumps(message).encode()]
        run(folder / "lake", b"\n".join(lines), batch_roots=[str(folder)])
    assert [said(tmp_path / f"{n}" / "lake") for n in (0, 1)] == [[True], [False]]


@settings(max_examples=150, deadline=None)
@given(odd_lines())
def test_what_the_target_takes_as_proved_is(case: tuple[list[str], list[bytes]]) -> None:
    names, lines = case
    spec = {"type": "object", "properties": {name: WIDE[name] for name in names}}
    validator = Validator("s", spec, [])
    assert validator.proves_types
    assert validator.decoder is not None
    for line in lines:
        try:
            raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])["record"]
            str(raw, "utf-8")
            validator.decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            continue
        whole = b'{"type": "RECORD", "record": %b}\n' % raw
        assert type_prover.proves([whole], columns_of(SchemaEntry(spec))), whole
