"""Metadata that is cut, forged, huge or points elsewhere: one error, and the rest goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.errors import LockTimeoutError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.staging import StagedTable
from singerlake.log.writer import WriteOptions
from singerlake.ops.verify.plan import check_log
from singerlake_cli.main import cli
from tests.build import EXTRACTED, commit_rows, record_line, resealed, schema_line
from tests.tap.run import run as run_tap
from tests.target.harness import record, run, schema

BAD = TableName("tap", "bad")
ID = {"id": {"type": "integer"}}
FIRST, LAST = BAD.transaction(1), BAD.transaction(2)
KEYS = {
    "entry": LAST,
    "manifest": BAD.manifest,
    "catalogue": "raw/tap/catalogue.json",
    "lake file": "raw/singerlake.json",
    "index marker": "index/tap/bad/2/_index.json",
}
HUGE = 10**15
WHOLE: dict[str, bytes] = {
    "empty": b"",
    "NUL bytes": b"\0" * 100,
    "null": b"null",
    "a number": b"17",
    "a list": b"[]",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "huge": b'{"format":1,"x":"' + b"x" * (8 << 20) + b'"}',
    "not UTF-8": b'{"format":1,"x":"\xff"}',
    "endless digits": b'{"format":' + b"1" * 100_000 + b"}",
    "a newer format": b'{"format":99}',
    "another shape": b'{"format":1}',
}


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    """A lake of two tables, one of which will be harmed."""
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.bad", ID, ["id"], [{"id": 1}])
    commit_rows(lake, "tap.bad", ID, ["id"], [{"id": 2}, 7])
    commit_rows(lake, "tap.good", ID, ["id"], [{"id": 1}])
    return tmp_path / "lake"


def command(root: Path, *words: str) -> int:
    """Run a command; anything but one plain line of error is a failure."""
    result = CliRunner().invoke(cli, ["--lake", str(root), *words])
    assert "unexpected" not in result.output, result.output
    assert "Traceback" not in result.output
    return result.exit_code


def read_everything(root: Path) -> None:
    """Everything a reader does with the table, short of Spark."""
    table = Lake.open(str(root)).table(BAD)
    snapshot = table.snapshot()
    for block in snapshot.blocks:
        table.read_block(block)
    for transaction in snapshot.transactions:
        snapshot.at(transaction.number)


def one_error_at_most(root: Path) -> bool:
    """Use the lake in every way; whether the harmed table could be read.

    The other table must not notice.
    """
    read = True
    try:
        read_everything(root)
    except SingerlakeError as error:
        assert error.exit_code == 5, repr(error)
        assert len(str(error)) < 1000
        read = False
    for words in (["ls"], ["show", "tap.bad"], ["history", "tap.bad"], ["versions", "tap.bad"]):
        assert command(root, *words) in (0, 5), words
    for words in (["show", "tap.good"], ["history", "tap.good"]):
        assert command(root, *words) == 0, words
    run(root, [schema("good", ID, ["id"]), record("good", {"id": 5})], tap_id="tap")
    assert Lake.open(str(root)).find("tap.good")[0].snapshot().number == 2
    try:
        run(root, [schema("bad", ID, ["id"]), record("bad", {"id": 5})], tap_id="tap")
    except SingerlakeError as error:
        assert error.exit_code == 5, repr(error)
    return read


@pytest.mark.parametrize("harm", [*WHOLE, "cut"])
@pytest.mark.parametrize("kind", KEYS)
def test_a_file_that_is_not_what_it_should_be(root: Path, kind: str, harm: str) -> None:
    path = root / KEYS[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    present = path.read_bytes() if path.exists() else b'{"format": 1, "transaction": 2}'
    path.write_bytes(present[: len(present) // 2] if harm == "cut" else WHOLE[harm])
    if (kind, harm) == ("lake file", "a newer format"):
        assert command(root, "ls") == 5
        return
    read = one_error_at_most(root)
    # With the manifest the last entry is not needed; what is derived never is.
    assert read or (kind, harm) == ("manifest", "a newer format")


def change(path: Path, edit: Callable[[Any], object]) -> None:
    value = json.loads(path.read_text())
    edit(value)
    path.write_bytes(resealed(value))


NUMBERS = (-1, -5, HUGE, 2**62, 2**63 - 1, 2**64 - 1, 10**30, 1.5, "x", None, [])


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("field", ["number", "offset", "length", "rows", "bytes"])
def test_a_block_with_a_forged_number(root: Path, field: str, value: Any) -> None:
    (root / BAD.manifest).unlink()
    change(root / LAST, lambda entry: entry["blocks"][0].__setitem__(field, value))
    assert not one_error_at_most(root) or field == "rows"


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("place", ["transaction", "last_block", "offset", "length", "bytes"])
def test_a_manifest_with_a_forged_number(root: Path, place: str, value: Any) -> None:
    """It is derived: the log stands in. One that fits its own numbers may be believed."""
    row = ("number", "offset", "length", "rows", "bytes")

    def edit(manifest: Any) -> None:
        if place in row:
            manifest["files"][0]["blocks"][0][row.index(place)] = value
        elif place == "transaction":
            manifest[place] = value
        else:
            manifest["transactions"][-1][place] = value

    change(root / BAD.manifest, edit)
    one_error_at_most(root)


ELSEWHERE = (
    "../../../../outside/secret.singer.gz",
    "NFSHXeX/../../../../../outside/secret.singer.gz",
    "/etc/passwd",
    "{outside}",
    "NFSHXeX/\0",
    "NFSHXeX/" + "x" * 5000,
    "NFSHXeX\\..\\..\\outside\\secret.singer.gz",
    "NFSHXeX",
    "",
)


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("kind", ["entry", "manifest"])
def test_a_path_that_leaves_the_table(root: Path, outside: Path, kind: str, path: str) -> None:
    path = path.replace("{outside}", str(outside))
    if kind == "manifest":
        change(root / BAD.manifest, lambda found: found["files"][0].__setitem__("path", path))
        assert one_error_at_most(root)
        return
    (root / BAD.manifest).unlink()
    change(root / LAST, lambda found: found["blocks"][0].__setitem__("file", path))
    assert not one_error_at_most(root)


@pytest.mark.parametrize("properties", [5, "x", [], None])
def test_a_schema_whose_properties_are_none(root: Path, properties: Any) -> None:
    (root / BAD.manifest).unlink()

    def edit(entry: Any) -> None:
        for found in entry["schemas"].values():
            found["schema"]["properties"] = properties

    change(root / FIRST, edit)
    one_error_at_most(root)


@pytest.mark.parametrize("harm", WHOLE)
def test_a_lock_that_says_nothing_goes_stale_like_any_other(tmp_path: Path, harm: str) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    snapshot = commit_rows(lake, "tap.t", ID, ["id"], [{"id": 1}])
    key = snapshot.table.lock(snapshot.schema_hash)
    (tmp_path / "lake" / key).write_bytes(WHOLE[harm])
    assert command(tmp_path / "lake", "ls") == 0
    assert command(tmp_path / "lake", "locks") in (0, 5)
    with pytest.raises(LockTimeoutError):
        _commit(lake, WriteOptions(lock_wait_seconds=0.1))
    _commit(lake, WriteOptions(lock_stale_seconds=0.1, lock_wait_seconds=10))
    assert lake.find("tap.t")[0].snapshot().number == 2


def _commit(lake: Lake, options: WriteOptions) -> None:
    table = lake.find("tap.t")[0]
    snapshot = table.snapshot()
    text = schema_line("t", ID, ["id"]) + record_line("t", {"id": 2})
    staged = StagedTable(lake.store, table.name)
    staged.set_schema(snapshot.schema_hash, snapshot.schema)
    block = Block(0, "", 0, 0, 1, len(text), EXTRACTED, EXTRACTED)
    staged.add(snapshot.schema_hash, format_block.encode(text, 1, 1), block)
    try:
        table.writer(options).commit(staged)
    finally:
        staged.discard()


@pytest.mark.parametrize(
    "name", ["999999999999.json", "9" * 200 + ".json", "²²²²²²²²²²²².json", "x.json", "0.json"]
)
@pytest.mark.parametrize("manifest", [True, False])
def test_a_stray_file_in_the_log(root: Path, name: str, manifest: bool) -> None:
    """One far ahead of the log is a hole in it, and nobody counts up to its number."""
    (root / BAD.log / name).write_bytes((root / LAST).read_bytes())
    if not manifest:
        (root / BAD.manifest).unlink()
    store = Lake.open(str(root)).store
    far = name == "999999999999.json"
    assert bool(check_log(store, BAD).problems) == far
    assert one_error_at_most(root) == (manifest or not far)


def test_the_tap_passes_over_nothing_in_silence(root: Path) -> None:
    (root / BAD.manifest).unlink()
    change(root / LAST, lambda entry: entry["blocks"][0].__setitem__("length", HUGE))
    with pytest.raises(SingerlakeError) as caught:
        run_tap(Lake.open(str(root)))
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("kind", [*KEYS, "lock"])
def test_a_file_of_many_gigabytes_is_refused_before_it_is_read(root: Path, kind: str) -> None:
    """All of it a hole, so that it takes no disk; read whole, it would take the memory."""
    snapshot = Lake.open(str(root)).table(BAD).snapshot()
    key = BAD.lock(snapshot.schema_hash) if kind == "lock" else KEYS[kind]
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(40 << 30)
    if kind == "entry":
        (root / BAD.manifest).unlink()
    assert one_error_at_most(root) == (kind != "entry")
    if kind != "manifest":  # which the next commit has made anew
        with pytest.raises(SingerlakeError, match="42,949,672,960 bytes, more than any such file"):
            Lake.open(str(root)).store.get(key)
