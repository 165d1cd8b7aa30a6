"""Files as tasks read them: in ranges, compressed or not, and never half."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from singerlake.errors import DamagedError, NotFoundError, SingerlakeError, UsageError
from singerlake.lake import Lake
from singerlake.rows.given.byte_sources import (
    CHUNK,
    LocalFile,
    StoreFile,
    chunks,
    compression_of,
    inflated,
)

LONG = b"".join(b"%d,abc\n" % number for number in range(900_000))


def _zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as file:
        file.write(data)
    return bytes(out.getvalue())


def _file(tmp_path: Path, data: bytes) -> LocalFile:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    return LocalFile.of(path)


def test_a_file_is_read_in_ranges_after_a_journey(tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(_file(tmp_path, LONG)))
    assert source.size == len(LONG) > CHUNK
    assert source.read(7, 20) == LONG[7:27]
    assert source.read(source.size - 3, 20) == LONG[-3:]
    assert b"".join(chunks(source, 11)) == LONG[11:]


def test_an_object_of_a_store_is_read_like_a_file(lake: Lake) -> None:
    lake.store.put_if_absent(".staging/x", LONG)
    source = StoreFile("a.csv", lake.store, ".staging/x", len(LONG))
    assert b"".join(chunks(source)) == LONG
    gone = StoreFile("a.csv", lake.store, ".staging/y", 10)
    with pytest.raises(SingerlakeError, match=r"a\.csv is missing"):
        gone.read(0, 10)


@pytest.mark.parametrize("pack", [gzip.compress, _zstd])
def test_a_compressed_file_is_one_stream(tmp_path: Path, pack: object) -> None:
    data = pack(LONG[:5_000_000]) + pack(LONG[5_000_000:])  # type: ignore[operator]
    source = _file(tmp_path, data)
    compression = compression_of(source)
    assert compression is not None
    assert b"".join(inflated(source, compression)) == LONG
    for damaged in (data[:-5], data[: len(data) // 3], data + b"xyz123"):
        with pytest.raises(DamagedError, match=r"a\.csv is not a complete"):
            list(inflated(_file(tmp_path, damaged), compression))


def test_a_plain_file_is_not_taken_for_a_compressed_one(tmp_path: Path) -> None:
    assert compression_of(_file(tmp_path, b"id,name\n")) is None
    assert compression_of(_file(tmp_path, b"")) is None


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    source = _file(tmp_path, b"id\n1\n")
    (tmp_path / "a.csv").write_bytes(b"id\n2\n")
    os.utime(source.path, ns=(0, source.modified + 1))
    with pytest.raises(SingerlakeError, match="changed while it was read"):
        source.read(0, 5)
    Path(source.path).unlink()
    with pytest.raises(SingerlakeError, match="any more"):
        source.read(0, 5)


def test_what_is_no_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"there is no file .*b\.csv"):
        LocalFile.of(tmp_path / "b.csv")
    with pytest.raises(UsageError, match="is not a seekable file"):
        LocalFile.of(tmp_path)
