"""Lines of files are proven piece by piece, and taken as the same RECORD lines are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError
from target_singerlake import reader
from target_singerlake.batches import proving
from target_singerlake.validation import Validator
from tests.target.batches import batch, jsonl, rows_of
from tests.target.harness import lines_of, record, records_of, run, schema, state

SPEC: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "at": {"type": ["null", "string"], "format": "date-time"},
}
SCHEMA = schema("s", SPEC, ["id"])
OTHER = schema("t", {"id": {"type": "integer"}}, ["id"])
ROWS: list[dict[str, Any]] = [{"id": n, "name": "x" * (n % 90)} for n in range(3000)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CHUNK", 2000)


def take(folder: Path, *lines: bytes, **config: Any) -> list[Any]:
    return run(folder / "lake", [SCHEMA, *lines, state(1)], batch_roots=[str(folder)], **config)


def test_the_state_is_that_of_the_same_records(tmp_path: Path) -> None:
    rows = [*ROWS]
    rows[700] = {"id": 700, "at": "0001-01-01T00:00:00+05:00"}  # each of these needs a closer look
    rows[1500] = {"id": 1500, "_sdc_extracted_at": "2020-01-01T00:00:00Z"}
    rows[2300] = {"id": 2300, "x": "\u2028"}
    (tmp_path / "b").write_bytes(jsonl(rows))
    (tmp_path / "c").write_bytes(jsonl({"id": n} for n in range(1000)))
    lines = (
        batch("s", tmp_path / "b"),
        OTHER,
        batch("t", tmp_path / "c"),
        batch("s", tmp_path / "c"),
    )
    assert take(tmp_path, *lines) == [1]
    one_by_one = [record("s", row) for row in [*rows, *({"id": n} for n in range(1000))]]
    run(tmp_path / "lines", [SCHEMA, *one_by_one])
    assert rows_of(tmp_path / "lake", "s") == rows_of(tmp_path / "lines", "s")
    assert [row["id"] for row in records_of(tmp_path / "lake", "t")] == [*range(1000)]
    stored = [json.loads(line) for line in lines_of(tmp_path / "lake", "s")]
    times = [line["time_extracted"] for line in stored if line["type"] == "RECORD"]
    assert times[1500] == "2020-01-01T00:00:00.000000Z"
    assert times.count(times[1500]) == 1


def test_refused_lines_keep_their_numbers(tmp_path: Path) -> None:
    text = jsonl(ROWS).splitlines(keepends=True)
    bad = {500: b'{"id":"x"}\n', 1234: b"no json\n", 2999: b'{"name":"no id"}\n'}
    for number, line in bad.items():
        text[number] = line
    (tmp_path / "b").write_bytes(b"".join(text))
    assert take(tmp_path, batch("s", tmp_path / "b"), invalid_records="quarantine") == [1]
    rows = records_of(tmp_path / "lake", "s__rejected")
    assert [row["line"] for row in rows] == [number + 1 for number in bad]
    assert len(records_of(tmp_path / "lake", "s")) == len(ROWS) - len(bad)


def test_the_first_thing_wrong_is_told(tmp_path: Path) -> None:
    text = jsonl(ROWS).splitlines(keepends=True)
    text[2950] = b'{"id":"x"}\n'
    (tmp_path / "b").write_bytes(b"".join(text))
    limit = (tmp_path / "b").stat().st_size - 1  # passed with the last lines
    with pytest.raises(InputError, match=r"line 2951.* field 'id'"):
        take(tmp_path, batch("s", tmp_path / "b"), batch_file_bytes=limit)
    text[2950] = b'{"id":1}\n'
    (tmp_path / "b").write_bytes(b"".join(text))
    with pytest.raises(InputError, match="batch_file_bytes"):
        take(tmp_path, batch("s", tmp_path / "b"), batch_file_bytes=limit // 2)


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (b'{"id":1}\n', proving.PROVEN_UNTIMED),
        (b'{"id":1,"_sdc_extracted_at":""}\n', proving.PROVEN),
        (b'{"id":"1"}\n', proving.DOUBTFUL),
        (b'{"id":2}\n{"id":\n3}\n', proving.DOUBTFUL),
        (b'{"id":1,"at":"0001-01-01T00:00:00+05:00"}\n', proving.DOUBTFUL),
    ],
)
def test_what_is_known_of_lines(data: bytes, known: int) -> None:
    assert proving.prove(Validator("s", {"properties": SPEC}, ["id"]), data) == known
