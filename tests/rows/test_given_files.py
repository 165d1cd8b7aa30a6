"""Files that somebody gives: what can be wrong with one as a whole is said at once."""

from __future__ import annotations

import gzip
import hashlib
import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from singerlake.errors import (
    DamagedError,
    InputError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.rows.given.byte_sources import StoreFile, chunks
from singerlake.rows.given.files import format_of, open_files, within_reach
from singerlake.storage.local.store import LocalStore

TEXT = b"id,name\n" + b"".join(b"%d,n%d\n" % (n, n) for n in range(1000))


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.csv", "csv"),
        ("a.b.TSV", "tsv"),
        ("a.tab", "tsv"),
        ("a.jsonl.gz", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("folder.csv/a.parquet.zst", "parquet"),
    ],
)
def test_a_name_tells_the_format(name: str, format_: str) -> None:
    assert format_of(name) == format_


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "folder.csv/a", "-"])
def test_a_name_that_tells_no_format(name: str) -> None:
    with pytest.raises(UsageError, match=r"--format csv\|tsv\|jsonl\|parquet"):
        format_of(name)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_what_is_compressed_is_seen_by_its_bytes(tmp_path: Path, packed, name) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / name
    data = packed(TEXT)  # once: gzip writes the time
    path.write_bytes(data)
    with open_files([str(path)], io.BytesIO()) as (file,):
        assert b"".join(chunks(file.source)) == TEXT
        assert file.source.size == len(TEXT)
        assert file.described() == {
            "name": name,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }


def test_standard_input_is_kept_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_files(["-"], io.BytesIO(gzip.compress(TEXT)), "csv") as (file,):
        assert b"".join(chunks(file.source)) == TEXT
        assert file.described()["name"] == "standard input"
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_uploaded(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "a.csv").write_bytes(TEXT)
    (tmp_path / "b.jsonl").write_text("{}")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(TEXT)[:-20])
    (tmp_path / "nothing.csv.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "folder.csv").mkdir()
    for paths, error, words in (
        (["none.csv"], NotFoundError, "none.csv"),
        (["empty.csv"], InputError, "empty.csv is empty: there is nothing to upload"),
        (["nothing.csv.gz"], InputError, "nothing.csv.gz is empty"),
        (["cut.csv.gz"], DamagedError, "cut.csv.gz is not a complete gzip file"),
        (["folder.csv"], SingerlakeError, "folder.csv"),
        (["a.csv", "a.csv"], UsageError, "a.csv is named twice"),
        (["a.csv", "b.jsonl"], UsageError, "upload files of one format at a time"),
    ):
        with (
            pytest.raises(error) as caught,
            open_files([str(tmp_path / path) for path in paths], io.BytesIO()),
        ):
            pass
        assert words in str(caught.value)
    with pytest.raises(UsageError, match="download it first, or pipe it, as in aws s3 cp"):
        open_files(["s3://b/a.csv"], io.BytesIO()).__enter__()


def test_a_file_is_put_within_reach_of_other_machines_and_taken_back(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(TEXT)
    store = LocalStore(tmp_path / "lake")
    with (
        open_files([str(tmp_path / "a.csv")], io.BytesIO()) as files,
        within_reach(files, store) as (there,),
    ):
        assert isinstance(there.source, StoreFile)
        assert there.source.read(3, 4) == TEXT[3:7]
        assert b"".join(chunks(there.source)) == TEXT
        assert list(store.leftovers()) == []  # its writer is alive
    assert [path.name for path in (tmp_path / "lake" / ".staging").iterdir()] == []
