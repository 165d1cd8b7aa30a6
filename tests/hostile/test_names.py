"""Names of streams, taps and tables that try to be paths, devices or each other."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.lake import Lake
from singerlake_cli.main import cli
from tests.tap.run import run as run_tap
from tests.target.harness import data_files, lines_of, process, record, run, schema, state

PLAIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%")
STREAMS = [
    "orders",
    "оrders",  # a Cyrillic o
    "ｏrders",  # full width
    "orders\u200b",  # a space of no width
    "\u202esredro",  # written from right to left
    unicodedata.normalize("NFC", "café"),
    unicodedata.normalize("NFD", "café"),
    "../outside",
    "..\\outside",
    "．．／outside",
    "a\u2215b",  # a slash that is none
    "/etc/passwd",
    "C:\\windows",
    "a:b",
    "a\0b",
    "~root",
    "$HOME",
    "`id`",
    "CON",
    "con.txt",
    "LPT9.",
    "aux ",
    "COM1.singer.gz",
    " ",
    ".",
    "..",
    "...",
    "a.",
    "-rf",
    "*",
    "%2e%2e",
    "%2F",
    "x" * 180,
    "transactions",
    "index",
    "_index.json",
]


def test_streams_of_every_name_in_one_run(tmp_path: Path, outside: Path) -> None:
    lake = tmp_path / "lake"
    lines = [schema(stream) for stream in STREAMS]
    lines += [record(stream, {"id": n}) for n, stream in enumerate(STREAMS)]
    run(lake, lines)
    assert {p.name for p in tmp_path.iterdir()} == {"lake", "outside"}
    assert {p.name for p in lake.iterdir()} <= {"raw", ".staging"}
    files = [path for path in data_files(lake) if path.is_file()]
    folders = {path.parent.parent for path in files}
    assert len(files) == len(folders) == len(STREAMS)
    for folder in folders:
        assert folder.parent == lake / "raw" / "tap-test"
        # No two are one on a file system that ignores case, and all are spelled in ASCII.
        assert set(folder.name) <= PLAIN
        assert not folder.name.endswith((".", " "))
    for n, stream in enumerate(STREAMS):
        assert lines_of(lake, stream) == [record(stream, {"id": n})]
    played = run_tap(Lake.open(str(lake)))
    assert {m["stream"]: m["record"]["id"] for m in played.of("RECORD")} == {
        stream: n for n, stream in enumerate(STREAMS)
    }


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("stream", ["x" * 300, "é" * 100, "", "\ud800"])
def test_a_stream_without_a_place_ends_the_real_process_with_5(
    tmp_path: Path, outside: Path, stream: str
) -> None:
    lines = [schema("good"), record("good", {"id": 1}), state(1), schema(stream)]
    ended = process(tmp_path / "lake", [*lines, record(stream, {"id": 1}), state(2)])
    assert ended.returncode == 5, ended.stderr
    assert ended.stdout == b""
    assert b"line 4" in ended.stderr.splitlines()[-1]
    assert b"Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()[-1]) < 1000


@pytest.mark.parametrize(
    "tap", ["", "a.b", "..", "x" * 300, "\0", "../../outside", "/etc", "CON", "é" * 20, "a/b"]
)
def test_a_tap_id_stays_in_its_folder_or_is_refused(
    tmp_path: Path, outside: Path, tap: str
) -> None:
    from singerlake.errors import UsageError

    lake = tmp_path / "lake"
    try:
        run(lake, [schema("s"), record("s", {"id": 1})], tap_id=tap)
    except UsageError as error:
        assert error.exit_code == 2
        assert not lake.exists()
        return
    [file] = data_files(lake)
    assert len(file.relative_to(lake / "raw").parts) == 4
    assert set(file.relative_to(lake).parts[1]) <= PLAIN
    assert lines_of(lake, "s", tap=tap) == [record("s", {"id": 1})]


@pytest.mark.parametrize(
    "name",
    [
        "tap.../../outside/secret",
        "../outside.s",
        "/etc/passwd",
        "tap./etc/passwd",
        "tap.s.99999999999999999999999999",
        "tap.s.@" + "9" * 5000,
        "tap.\0",
        "tap." + "x" * 5000,
        "tap",
        "",
        ".",
        "..",
        "tap.s.1.2.3",
        "tap.%2e%2e%2fx",
    ],
)
@pytest.mark.parametrize("command", ["show", "history", "versions"])
def test_a_command_finds_no_table_outside(
    tmp_path: Path, outside: Path, command: str, name: str
) -> None:
    lake = tmp_path / "lake"
    run(lake, [schema("s"), record("s", {"id": 1})], tap_id="tap")
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}
    result = CliRunner().invoke(cli, ["--lake", str(lake), command, name])
    assert result.exit_code in (2, 3), result.output
    assert "unexpected" not in result.output
    assert {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()} == before


def test_folders_that_are_no_names_are_passed_over(tmp_path: Path, outside: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, [schema("s"), record("s", {"id": 1})])
    for name in ("%zz", "a b", "é", "%2e%2e%2f", "x" * 250):
        (lake / "raw" / name / "transactions").mkdir(parents=True)
        (lake / "raw" / "tap-test" / name).mkdir()
    (lake / "raw" / "link").symlink_to(outside.parent)
    result = CliRunner().invoke(cli, ["--lake", str(lake), "--output", "json", "ls"])
    assert result.exit_code == 0, result.output
    assert "tap-test.s" in json.dumps(_json(result.output))


def _json(text: str) -> Any:
    """The JSON of an answer, behind warnings."""
    return json.loads(text[min(n for n in (text.find("["), text.find("{")) if n >= 0) :])
