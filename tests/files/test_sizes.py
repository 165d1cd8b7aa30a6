"""Very many files in one run, and one that is very large: memory follows neither.

``SINGERLAKE_SIZES=full`` takes a million files and one of 6 GiB, a quarter of an hour of processor
time and 10 GB of disk; without it, a thousandth of them go the same way.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.errors import InputError
from singerlake.files import sources
from tests.files.photos import PHOTOS, table_of
from tests.target.harness import peak_of, record, records_of, schema

FULL = os.environ.get("SINGERLAKE_SIZES") == "full"
FEW, MANY, BLOCK_ROWS = (20_000, 1_000_000, 25_000) if FULL else (500, 5_000, 100)
LARGE = 6 << 30 if FULL else 300 << 20
MOST = 200 << 20
"""What the target may take, whatever comes."""
_IN_A_FOLDER = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)  # pytest would keep the last three


def _peak(folder: Path, uris: list[str]) -> int:
    """The most memory that a run takes whose rows name files."""
    lines = (record("photos", {"id": n, "photo": {"uri": uri}}) for n, uri in enumerate(uris))
    config = {"file_roots": [str(folder)], "block_rows": BLOCK_ROWS}
    lake = folder / f"lake-{len(uris)}"
    return peak_of(lake, [schema("photos", PHOTOS, ["id"]), *lines], **config)


def _tiny(folder: Path, count: int) -> list[str]:
    """Make files of a few bytes each, all different."""
    for start in range(0, count, _IN_A_FOLDER):
        (folder / f"{start}").mkdir(exist_ok=True)
    uris = [f"{n // _IN_A_FOLDER * _IN_A_FOLDER}/{n}" for n in range(count)]
    for uri in uris:
        (folder / uri).write_bytes(uri.encode())
    return uris


@pytest.mark.usefixtures("long_runs")
def test_memory_does_not_follow_the_number_of_files(folder: Path) -> None:
    few, many = (_peak(folder, _tiny(folder, count)) for count in (FEW, MANY))
    print(f"{FEW:,} files: {few >> 20} MiB; {MANY:,} files: {many >> 20} MiB")
    assert many < few + (48 << 20)
    assert many < MOST
    blocks = table_of(folder / f"lake-{MANY}").snapshot().blocks
    assert sum(block.files.files for block in blocks if block.files) == MANY


@pytest.mark.usefixtures("long_runs")
def test_memory_does_not_follow_the_size_of_a_file(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        os.truncate(file.fileno(), LARGE)
    peak = _peak(folder, ["sparse"])
    print(f"{LARGE >> 20:,} MiB: {peak >> 20} MiB")
    assert peak < MOST
    [row] = records_of(folder / "lake-1", "photos")
    assert row["photo"]["size"] == LARGE
    hashed, zeros = hashlib.sha256(), bytes(1 << 20)
    for _ in range(LARGE >> 20):
        hashed.update(zeros)
    assert row["photo"]["checksum"] == f"SHA-256:{hashed.hexdigest()}"


def test_a_small_file_is_read_in_little_memory(folder: Path) -> None:
    # What many threads take for a moment, none of them gives back as a whole.
    (folder / "small").write_bytes(b"small")
    read = sources.Sources(sources.SourceOptions((str(folder),)))
    assert b"".join(read.pieces("small")) == b"small"
    tracemalloc.start()
    try:
        pieces = [b"".join(read.pieces("small")) for _ in range(3)]
        assert tracemalloc.get_traced_memory()[1] < sources.PIECE_BYTES // 10
    finally:
        tracemalloc.stop()
    assert set(pieces) == {b"small"}


def test_a_file_that_has_more_than_it_says_is_refused_at_once() -> None:
    pipe, writing = os.pipe()  # its end never comes
    os.write(writing, b"a")
    with pytest.raises(InputError, match="changed while it was read"):
        list(sources.pieces_of(pipe, "odd"))
    os.close(writing)
