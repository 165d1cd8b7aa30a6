"""Files of records that mean harm, are damaged or are gone; and their end."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from singerlake.errors import InputError, StoreError, UsageError
from singerlake.plugins.settings import batch_options
from singerlake.safe_text import redacted
from singerlake.storage.options import StoreOptions
from target_singerlake.batches import files as files_module
from target_singerlake.batches.roots import Roots
from tests.target.batches import FORMS, batch, jsonl
from tests.target.harness import (
    command,
    data_files,
    leftovers,
    peak_of,
    records_of,
    run,
    schema,
    state,
    tables,
    text,
)

SCHEMA = schema("s")


def refused(lake: Path, line: bytes, words: str, **config: Any) -> None:
    """A run that ends with exit code 5, names the line, stores nothing and puts no STATE out."""
    with pytest.raises(InputError, match=words) as caught:
        run(lake, [SCHEMA, state(0), line, state(1)], **config)
    assert caught.value.exit_code == 5
    assert run.states == []  # type: ignore[attr-defined]
    assert tables(lake) == {}
    assert leftovers(lake) == []


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "good").write_bytes(jsonl([{"id": 1}]))
    (tmp_path / "secret").write_bytes(jsonl([{"id": 2}]))
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "inside-too" / "file").write_bytes(jsonl([{"id": 2}]))
    return folder


OUT: dict[str, Callable[[Path], str]] = {
    "a path": lambda folder: str(folder.parent / "secret"),
    "a URI": lambda folder: (folder.parent / "secret").as_uri(),
    "dots": lambda folder: f"{folder.as_uri()}/../secret",
    "encoded dots": lambda folder: f"{folder.as_uri()}/%2e%2e/secret",
    "a name that begins alike": lambda folder: str(folder.parent / "inside-too" / "file"),
    "a link": lambda folder: _linked(folder / "link", folder.parent / "secret"),
    "a folder's link": lambda folder: _linked(folder / "up", folder.parent) + "/secret",
    "relative": lambda folder: "../../secret",
    "the folder itself": lambda folder: str(folder),
    "a device": lambda folder: "file:///dev/zero",
    "this process": lambda folder: "/proc/self/environ",
    "a foreign bucket": lambda folder: "s3://other/key",
    "a bucket of Google's": lambda folder: "gs://other/key",
    "a container": lambda folder: "AZ://other/key",
}


def _linked(link: Path, target: Path) -> str:
    link.symlink_to(target)
    return str(link)


@pytest.mark.parametrize("name", OUT)
def test_nothing_outside_is_read(tmp_path: Path, inside: Path, name: str) -> None:
    line = batch("s", OUT[name](inside))
    refused(tmp_path / "lake", line, "outside of the allowed", batch_roots=[str(inside)])


ODD: dict[str, tuple[str, str]] = {
    "empty": ("", "is not a file name"),
    "NUL": ("file:///a%00b", "is not a file name"),
    "web": ("https://example.org/x", "not a file://, s3://, gs:// or az:// URI"),
    "dots in a bucket": ("s3://bucket/a/../b", "an empty or dotted part"),
    "no key": ("s3://bucket", "an empty or dotted part"),
}


@pytest.mark.parametrize("name", ODD)
def test_names_that_name_no_file(tmp_path: Path, inside: Path, name: str) -> None:
    uri, words = ODD[name]
    refused(tmp_path / "lake", batch("s", uri), words, batch_roots=[str(inside), "s3://bucket"])


def test_what_is_no_file(tmp_path: Path, inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    (inside / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(inside / "socket"))
        for name, words in {
            "pipe": "is a pipe where a file should be: correct the tap",
            "socket": "is a socket",
            "folder": "is a folder",
            "loop": "symbolic link",
            "gone": "does not exist",
        }.items():
            line = batch("s", inside / name)
            refused(tmp_path / "lake", line, words, batch_roots=[str(inside)])


def test_a_link_that_stays_inside_is_followed(tmp_path: Path, inside: Path) -> None:
    (inside / "to").symlink_to("good")
    (tmp_path / "other").symlink_to(inside)
    names = [str(inside / "to")]
    config = {"batch_roots": [str(tmp_path / "other")]}
    run(tmp_path / "lake", [SCHEMA, batch("s", *names)], **config)
    assert records_of(tmp_path / "lake", "s") == [{"id": 1}]


def test_a_folder_that_is_exchanged_meanwhile(tmp_path: Path, inside: Path) -> None:
    (inside / "sub").mkdir()
    (inside / "sub" / "secret").write_bytes(b"")
    roots = Roots([str(inside)], str(tmp_path / "lake"))
    file = roots.find(str(inside / "sub" / "secret"))
    (inside / "sub" / "secret").unlink()
    (inside / "sub").rmdir()
    (inside / "sub").symlink_to(tmp_path)
    with pytest.raises(InputError, match="symbolic link"):
        file.open()


def test_the_lakes_own_files_are_no_input(tmp_path: Path, inside: Path) -> None:
    lake = inside / "lake"
    run(lake, [SCHEMA, batch("s", inside / "good")], batch_roots=[str(inside)])
    [own] = data_files(lake)
    with pytest.raises(InputError, match="belongs to the lake itself"):
        run(
            lake,
            [schema("t", {"x": {}}), batch("t", own)],
            batch_roots=[str(inside)],
            batch_clean_up=True,
        )
    assert own.exists()


def test_where_files_may_lie_by_default(
    tmp_path: Path, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(inside)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "inside-too"))
    lines = [SCHEMA, batch("s", "good", "file://../inside-too/file")]
    run(tmp_path / "lake", lines)
    assert len(records_of(tmp_path / "lake", "s")) == 2
    refused(tmp_path / "new", batch("s", tmp_path / "secret"), "outside of the allowed")
    monkeypatch.chdir("/")
    refused(tmp_path / "new", batch("s", tmp_path / "secret"), "outside of the allowed")


def test_names_relative_to_the_storages_root(tmp_path: Path, inside: Path) -> None:
    for root in (str(inside), inside.as_uri()):
        lake = tmp_path / f"lake-{len(root)}"
        config = {"batch_config": {"storage": {"root": root}}}
        run(lake, [SCHEMA, batch("s", "good")], **config)
        assert records_of(lake, "s") == [{"id": 1}]
        refused(
            tmp_path / "none",
            batch("s", "../secret"),
            "outside of the allowed",
            **config,
            batch_roots=[],
        )


def test_a_file_that_is_named_twice(tmp_path: Path, inside: Path) -> None:
    (inside / "again").symlink_to("good")
    (inside / "hard").hardlink_to(inside / "good")
    for name in ("again", "hard"):
        line = batch("s", inside / "good", inside / name)
        words = f"line 3: the BATCH of stream 's' names .*{name} twice, as its files 1 and 2"
        refused(tmp_path / "lake", line, words, batch_roots=[str(inside)])


WHOLE = {form: make([{"id": n} for n in range(100)]) for form, make in FORMS.items()}
CUT = sorted(WHOLE.keys() - {"jsonl"})


@pytest.mark.parametrize("form", CUT)
@pytest.mark.parametrize("share", [0.3, 0.999])
def test_a_file_that_was_cut_off(tmp_path: Path, inside: Path, form: str, share: float) -> None:
    whole = WHOLE[form]
    (inside / "cut").write_bytes(whole[: int(len(whole) * share)])
    line = batch("s", inside / "good", inside / "cut")
    words = "line 3: the BATCH of stream 's': .*cut (is damaged|is not a complete)"
    refused(tmp_path / "lake", line, words, batch_roots=[str(inside)], batch_clean_up=True)
    assert (inside / "good").exists()


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("more", [b"", b"\xff\xff", b"\xff\xff\xff\xff", b"end", b"end, more"])
def test_a_stream_that_was_cut_off_between_two_batches(
    tmp_path: Path, inside: Path, batches: int, more: bytes
) -> None:
    sink = io.BytesIO()
    # The last value's bytes are those of the mark that ends a stream.
    table = pa.table({"id": pa.array([1, 0xFFFFFFFF])})
    writer = pa.ipc.new_stream(sink, table.schema)
    for _ in range(batches):
        writer.write_table(table)
    end = b"\xff\xff\xff\xff\0\0\0\0"
    (inside / "cut").write_bytes(sink.getvalue() + more.replace(b"end", end))
    line = batch("s", inside / "cut")
    if more == b"end":
        run(tmp_path / "lake", [SCHEMA, line, state(1)], batch_roots=[str(inside)])
        rows = records_of(tmp_path / "lake", "s")
        assert rows == [{"id": 1}, {"id": 0xFFFFFFFF}] * batches
        return
    refused(tmp_path / "lake", line, "cut is not a complete Parquet", batch_roots=[str(inside)])


@pytest.mark.parametrize("form", CUT)
def test_a_file_with_a_flipped_byte_is_itself_or_damaged(
    tmp_path: Path, inside: Path, form: str
) -> None:
    whole = WHOLE[form]
    for at in range(0, len(whole), max(1, len(whole) // 15)):
        data = bytearray(whole)
        data[at] ^= 0x41
        (inside / "odd").write_bytes(data)
        try:
            run(tmp_path / "lake", [SCHEMA, batch("s", inside / "odd")], batch_roots=[str(inside)])
        except InputError as error:
            assert error.exit_code == 5


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ({}, True),
        ({"format": "jsonl", "compression": "none"}, True),
        ({"format": "jsonl", "compression": "gzip"}, False),
        ({"format": "jsonl", "compression": "zstd"}, False),
        ({"format": "parquet"}, False),
        ({"format": "avro"}, False),
    ],
)
def test_an_empty_file(tmp_path: Path, inside: Path, said: dict[str, str], taken: bool) -> None:
    (inside / "empty").write_bytes(b"")
    line = batch("s", inside / "empty", encoding=said)
    if taken:
        states = run(tmp_path / "lake", [SCHEMA, line, state(1)], batch_roots=[str(inside)])
        assert states == [1]
    else:
        refused(tmp_path / "lake", line, "empty|of the format 'avro'", batch_roots=[str(inside)])


@pytest.mark.usefixtures("many_cases")
@pytest.mark.parametrize("form", ["one line", "lines", "parquet in gzip", "repeats in parquet"])
def test_a_bomb_ends_at_the_limit(tmp_path: Path, inside: Path, form: str) -> None:
    if form == "one line":
        data = gzip.compress(b'{"id":' + b" " * (3 << 20))
    elif form == "lines":
        data = gzip.compress(b'{"id":1}\n' * (1 << 19))
    elif form == "parquet in gzip":
        data = gzip.compress(b"PAR1" + bytes(3 << 20))
    else:
        table = pa.table({"name": pa.array(["x" * 1000]).take(pa.array([0] * 50_000))})
        pq.write_table(table, sink := io.BytesIO())
        data = sink.getvalue()
        assert len(data) < 10_000
    (inside / "bomb").write_bytes(data)
    config = {"batch_roots": [str(inside)], "batch_file_bytes": 1 << 21}
    line = batch("s", inside / "bomb")
    if form == "repeats in parquet":
        config["validate_records"] = False
        run(tmp_path / "lake", [SCHEMA, batch("s", inside / "bomb")], **config)
        return
    refused(tmp_path / "lake", line, "has more than 2.1 MB when decompressed", **config)


@pytest.mark.usefixtures("many_cases")
def test_a_manifest_of_very_many_names(tmp_path: Path, inside: Path) -> None:
    names = [f"{inside}/{n}" for n in range(40_000)]
    began = time.process_time()
    refused(tmp_path / "lake", batch("s", *names), "0 does not exist", batch_roots=[str(inside)])
    assert time.process_time() - began < 8


def test_clean_up_comes_behind_the_commit_and_the_state(
    tmp_path: Path, inside: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {"batch_roots": [str(inside)], "batch_clean_up": True}
    good, lake = inside / "good", tmp_path / "lake"
    (inside / "other").write_bytes(jsonl([{"id": 5}]))
    lines = [SCHEMA, batch("s", good), batch("s", inside / "other"), state(1)]

    def fails(_: bytes) -> None:
        raise StoreError("nobody took it")

    with monkeypatch.context() as patch:
        patch.setattr("target_singerlake.target._emit", fails)
        with pytest.raises(StoreError, match="nobody took it"):
            run(lake, lines, **config)
    assert good.exists()
    assert tables(lake) == {"s": 1}
    run(lake, lines, **{**config, "batch_clean_up": False})
    assert good.exists()
    with pytest.raises(InputError):
        run(lake, [*lines[:3], b"oops"], **config)
    assert good.exists()

    def exchange(_: bytes) -> None:
        good.write_bytes(jsonl([{"id": 7}, {"id": 8}]))

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("target_singerlake.target._emit", exchange)
        run(lake, lines, **config)
    assert good.exists()
    assert not (inside / "other").exists()
    assert "good was changed since it was read" in caplog.text
    assert run(lake, [SCHEMA, batch("s", good), batch("s", good), state(2)], **config) == [2]
    assert not good.exists()
    with pytest.raises(InputError, match="good does not exist"):
        run(lake, [SCHEMA, batch("s", good), state(3)], **config)


@pytest.mark.usefixtures("processes")
def test_a_run_that_dies_before_it_cleans_up(tmp_path: Path, inside: Path) -> None:
    """Only files are left, which the next run does not need: it goes on from the STATE."""
    lake, good = tmp_path / "lake", inside / "good"
    args, env = command(lake, batch_roots=[str(inside)], batch_clean_up=True)
    code = (
        "import os, sys; from target_singerlake.batches.clean_up import CleanUp\n"
        "CleanUp.committed = lambda self: os._exit(9)\n"
        "from target_singerlake.target import main; main()"
    )
    lines = [SCHEMA, batch("s", good), state(1)]
    died = subprocess.run(
        [args[0], "-c", code, *args[3:]],
        input=text(lines),
        capture_output=True,
        env=env,
        check=False,
    )
    assert (died.returncode, json.loads(died.stdout)) == (9, 1)
    assert good.exists()
    assert records_of(lake, "s") == [{"id": 1}]
    # A tap that did not get the STATE brings the same records again, as with RECORDs.
    config = {"batch_roots": [str(inside)], "batch_clean_up": True}
    assert run(lake, lines, **config) == [1]
    assert not good.exists()


def test_a_disk_that_is_full_of_temporary_files(
    tmp_path: Path, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    (inside / "b").write_bytes(FORMS["parquet, gzip around it"]([{"id": 1}]))
    monkeypatch.setattr(files_module.tempfile, "TemporaryFile", full)
    with pytest.raises(StoreError, match="No space left.*TMPDIR"):
        run(tmp_path / "lake", [SCHEMA, batch("s", inside / "b")], batch_roots=[str(inside)])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"batch_roots": ["abfs://c@a.dfs.core.windows.net/x"]}, "batch_roots.*give a folder, s3:"),
        ({"batch_roots": ["abfss://c/x"]}, "^batch_roots names a place .* as Hadoop does.*az:"),
        ({"batch_roots": ["gs://?/x"]}, "^batch_roots: a place for files on Google .*is named gs:"),
        ({"batch_roots": ["s3://?/x"]}, "^batch_roots: a place for files on S3 is named"),
        ({"batch_roots": [""]}, "batch_roots"),
        ({"batch_s3": {"aws_regoin": "x"}}, "batch_s3 has no setting 'aws_regoin'.*aws_region"),
        ({"batch_s3": {"aws_secret_access_key": 5}}, "aws_secret_access_key in batch_s3"),
    ],
)
def test_settings_are_checked_first(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(tmp_path / "lake", [SCHEMA], **config)


def test_other_buckets_are_reached_as_the_lake_is_service_by_service() -> None:
    lakes = {"gcs_anonymous": True, "aws_region": "eu-west-1", "aws_profile": "lake"}
    assert batch_options(lakes) == StoreOptions(
        gcs_anonymous=True, region="eu-west-1", profile="lake"
    )
    assert batch_options({**lakes, "batch_s3": {"aws_region": "us-east-1"}}) == StoreOptions(
        gcs_anonymous=True, region="us-east-1"
    )
    assert batch_options({**lakes, "batch_s3": {"gcs_token": "t"}}) == StoreOptions(
        gcs_token="t", region="eu-west-1", profile="lake"
    )


def test_secrets_of_other_buckets_are_hidden(tmp_path: Path) -> None:
    secret = "a-secret-of-batches-1234567890"
    run(
        tmp_path / "lake",
        [SCHEMA],
        batch_s3={"aws_secret_access_key": secret, "aws_access_key_id": "AKIABATCHES1234567"},
    )
    assert secret not in redacted(f"key {secret}")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("form", ["jsonl, gzip", "parquet", "arrow"])
def test_memory_does_not_follow_the_size_of_a_file(tmp_path: Path, form: str) -> None:
    numbers = pa.array(range(200_000))
    table = pa.table({"id": numbers, "name": pc.utf8_lpad(numbers.cast(pa.string()), 600, "x")})
    file = tmp_path / "b"
    if form == "parquet":
        pq.write_table(table, file, use_dictionary=False)
    elif form == "arrow":
        feather.write_feather(table, file, "uncompressed", chunksize=len(table))
    else:
        line = '{"id":%d,"name":"%600d"}\n'
        with gzip.open(file, "wb", 1) as out:
            out.writelines((line % (n, n)).encode() for n in range(200_000))
    spec = {"id": {"type": "integer"}, "name": {"type": "string"}}
    lines = [schema("s", spec), batch("s", file), state(1)]
    assert peak_of(tmp_path / "lake", lines, batch_roots=[str(tmp_path)]) < 200 << 20
