"""Lines of files that another process proves are taken as if there were none."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError
from target_singerlake import reader
from target_singerlake.batches import proving
from target_singerlake.validation import Validator
from tests.target.batches import batch, jsonl, rows_of
from tests.target.harness import lines_of, record, records_of, run, schema, state

pytestmark = pytest.mark.usefixtures("processes")

SPEC: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "at": {"type": ["null", "string"], "format": "date-time"},
}
SCHEMA = schema("s", SPEC, ["id"])
OTHER = schema("t", {"id": {"type": "integer"}}, ["id"])
ROWS: list[dict[str, Any]] = [{"id": n, "name": "x" * (n % 90)} for n in range(3000)]


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The other processes of a test, of which none is left; they get every small chunk."""
    started: list[Any] = []

    class Noted(proving._Other):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr(reader, "CHUNK", 2000)
    monkeypatch.setattr(proving, "LEAST_BYTES", 1)
    monkeypatch.setattr(proving, "_possible", lambda: True)
    monkeypatch.setattr(proving, "_Other", Noted)
    yield started
    for one in started:
        with pytest.raises(ProcessLookupError):
            os.kill(one.process, 0)


def take(folder: Path, *lines: bytes, **config: Any) -> list[Any]:
    return run(folder / "lake", [SCHEMA, *lines, state(1)], batch_roots=[str(folder)], **config)


def test_the_state_is_that_of_the_same_records(tmp_path: Path, others: list[Any]) -> None:
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
    [other] = others
    assert other._answered == other._sent > 5
    assert len(other._validators) == 2
    one_by_one = [record("s", row) for row in [*rows, *({"id": n} for n in range(1000))]]
    run(tmp_path / "lines", [SCHEMA, *one_by_one])
    assert rows_of(tmp_path / "lake", "s") == rows_of(tmp_path / "lines", "s")
    assert [row["id"] for row in records_of(tmp_path / "lake", "t")] == [*range(1000)]
    stored = [json.loads(line) for line in lines_of(tmp_path / "lake", "s")]
    times = [line["time_extracted"] for line in stored if line["type"] == "RECORD"]
    assert times[1500] == "2020-01-01T00:00:00.000000Z"
    assert times.count(times[1500]) == 1


def test_refused_lines_keep_their_numbers(tmp_path: Path, others: list[Any]) -> None:
    text = jsonl(ROWS).splitlines(keepends=True)
    bad = {500: b'{"id":"x"}\n', 1234: b"no json\n", 2999: b'{"name":"no id"}\n'}
    for number, line in bad.items():
        text[number] = line
    (tmp_path / "b").write_bytes(b"".join(text))
    assert take(tmp_path, batch("s", tmp_path / "b"), invalid_records="quarantine") == [1]
    assert others[0]._sent
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


@pytest.mark.parametrize("how", ["killed", "hopeless"])
def test_without_the_other_process_everything_is_proven_here(
    tmp_path: Path, others: list[Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "b").write_bytes(jsonl(ROWS))
    send = proving._Other.send

    def killing(self: Any, validator: Validator, data: bytes) -> bool:
        if how == "killed" and self._sent == 3:
            os.kill(self.process, signal.SIGKILL)
        return send(self, validator, data)

    monkeypatch.setattr(proving._Other, "send", killing)
    if how == "hopeless":
        monkeypatch.setattr(proving, "_read_all", lambda *_: b"no validator")
    assert take(tmp_path, batch("s", tmp_path / "b")) == [1]
    assert not others[0]._alive
    assert records_of(tmp_path / "lake", "s") == ROWS


def test_large_lines_are_proven_here_one_after_the_other(
    tmp_path: Path, others: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "_SLOT", 3000)
    rows = [{"id": n, "name": "x" * (9000 if n % 100 == 50 else 10)} for n in range(1000)]
    (tmp_path / "b").write_bytes(jsonl(rows))
    assert take(tmp_path, batch("s", tmp_path / "b")) == [1]
    assert others[0]._sent
    assert records_of(tmp_path / "lake", "s") == rows


def test_a_small_file_starts_no_process(
    tmp_path: Path, others: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_bytes(jsonl(ROWS))
    monkeypatch.setattr(proving, "LEAST_BYTES", 1 << 30)
    assert take(tmp_path, batch("s", tmp_path / "b")) == [1]
    assert not others


def test_the_other_process_holds_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    other = proving._Other()
    os.close(writing)
    assert os.read(reading, 1) == b""  # who waits for an end is not held up
    os.close(reading)
    os.kill(other.process, signal.SIGINT)  # a terminal sends it to both
    validator = Validator("s", {"properties": SPEC}, ["id"])
    assert other.send(validator, b'{"id":1}\n')
    assert other.answer(wait=True) == proving.PROVEN_UNTIMED
    assert other.send(validator, b'{"id":1,"_sdc_extracted_at":""}\n')
    assert other.answer(wait=True) == proving.PROVEN
    assert other.send(validator, b'{"id":"1"}\n')
    assert other.send(validator, b'{"id":2}\n{"id":\n3}\n')
    left = proving._AHEAD - 2
    assert all(other.send(validator, b'{"id":3}\n') for _ in range(left))
    assert not other.send(validator, b'{"id":3}\n')  # no room
    said = [other.answer(wait=True) for _ in range(proving._AHEAD)]
    assert said == [proving.DOUBTFUL] * 2 + [proving.PROVEN_UNTIMED] * left
    assert other.answer(wait=False) is None
    other.close()


def test_the_other_process_ends_with_the_one_that_was_killed() -> None:
    told, tells = os.pipe()
    killed = os.fork()
    if not killed:
        os.write(tells, b"%d" % proving._Other().process)
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(tells)
    os.waitpid(killed, 0)
    other = int(os.read(told, 20))
    os.close(told)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _lives(other):
        time.sleep(0.01)
    assert not _lives(other)


def _lives(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # whoever adopts it may take its time
