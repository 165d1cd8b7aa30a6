"""Parquet and Arrow files, a few megabytes of their rows at a time."""

from __future__ import annotations

import io
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.errors import StoreError
from singerlake.quantities import size
from singerlake.rows.lines.arrow_lines import is_json
from target_singerlake.errors import InvalidLineError

PARQUET, FILE = b"PAR1", b"ARROW1"
END = b"\xff\xff\xff\xff\0\0\0\0"
"""Ends a stream of Arrow: one without it was cut off, be it between two batches."""
ROWS = 8192
"""Most rows of a batch."""
BATCH_BYTES = 1 << 18
"""What a batch is to take, as far as the file says what its rows take."""
DICTIONARY_BYTES = 16 << 20
"""In row groups up to this size, of which the file says little, texts are read as dictionaries."""
MAPPED_BYTES = 32 << 20
"""An Arrow file that is larger is mapped into memory, of which what was read is let go of."""


class Columns:
    """The rows of a file, as Arrow batches.

    Args:
        file: The file, which can be read from any place.
        begins: Its first bytes.
        name: What messages call it.
        most: Bytes that it may have, once it is inflated.

    Raises:
        InvalidLineError: It is cut off or damaged, or has too many bytes.
    """

    def __init__(self, file: BinaryIO, begins: bytes, name: str, most: int) -> None:
        self._file = file
        self._name = name
        self._most = most
        self._mapped: mmap.mmap | None = None
        with self._as_damage():
            self._batches = self._parquet() if begins.startswith(PARQUET) else self._arrow(begins)

    def __enter__(self) -> Columns:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is to be closed: what was mapped goes with the last that uses it."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, each batch checked to be what it says it is.

        Raises:
            InvalidLineError: The file is damaged, or has too many bytes.
        """
        taken, pool = 0, pa.default_memory_pool()
        while True:
            with self._as_damage():
                batch = next(self._batches, None)
                if batch is None:
                    return
                batch.validate()
            taken += batch.nbytes
            if taken > self._most:
                raise self._too_large()
            for start, count in _pieces(batch):
                piece = batch.slice(start, count)
                with self._as_damage():
                    piece.validate(full=True)
                yield piece
                if self._mapped is not None:
                    self._mapped.madvise(mmap.MADV_DONTNEED)
            del batch
            pool.release_unused()

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        # Buffered, for else a column of a whole row group is read at once.
        source = pa.PythonFile(self._file, "r")
        metadata = pq.read_metadata(source)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        if sum(group.total_byte_size for group in groups) > self._most:
            raise self._too_large()
        # Texts that repeat take their place once; written out, they may be any times as large. Of
        # those that do not, a dictionary would hold the whole row group.
        small = max((group.total_byte_size for group in groups), default=0) <= DICTIONARY_BYTES
        texts = [
            column.path
            for column in map(metadata.schema.column, range(metadata.num_columns))
            if small and column.physical_type == "BYTE_ARRAY"
        ]
        # As a dictionary, JSON would lose its type, and become texts.
        roots = [field.name for field in metadata.schema.to_arrow_schema() if is_json(field)]
        below = tuple(f"{name}." for name in roots)
        texts = [path for path in texts if path not in roots and not path.startswith(below)]
        file = pq.ParquetFile(
            source, metadata=metadata, read_dictionary=texts, buffer_size=1 << 18, pre_buffer=False
        )
        return _of_groups(file, groups)

    def _arrow(self, begins: bytes) -> Iterator[pa.RecordBatch]:
        self._file.seek(0, os.SEEK_END)
        length = self._file.tell()
        self._file.seek(0)
        if length > MAPPED_BYTES:
            self._mapped = _mapped(self._file, self._name)
            source = pa.BufferReader(pa.py_buffer(self._mapped))
        else:
            # Arrow reads a file's end on threads of its own. With a Python file, one that still
            # held it when the process ends, as after an error, would abort the process.
            source = pa.BufferReader(_read_whole(self._file, length))
        if not begins.startswith(FILE):
            return _of_stream(source)
        reader = pa.ipc.open_file(source)
        return map(reader.get_batch, range(reader.num_record_batches))

    @contextmanager
    def _as_damage(self) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise InvalidLineError(
                f"{self._name} is damaged, or its batches are larger than the memory: {error}"
            ) from error
        except (pa.ArrowException, OSError, EOFError) as error:
            first = str(error).partition("\n")[0]
            raise InvalidLineError(
                f"{self._name} is not a complete Parquet or Arrow file: {first}; have the tap "
                "write it again"
            ) from error

    def _too_large(self) -> InvalidLineError:
        return InvalidLineError(
            f"{self._name} has more than {size(self._most)} when decompressed, the maximum of "
            "batch_file_bytes"
        )


def _of_groups(file: pq.ParquetFile, groups: list[pq.RowGroupMetaData]) -> Iterator[pa.RecordBatch]:
    for number, group in enumerate(groups):
        if not group.num_rows:
            continue
        rows = max(1, min(ROWS, BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)))
        yield from file.iter_batches(rows, [number], use_threads=False)


def _of_stream(source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream, and make sure that it was written to its end.

    Raises:
        EOFError: It was not, or there is more behind its end.
    """
    reader = pa.ipc.open_stream(source)
    at = source.tell()
    for batch in reader:
        at = source.tell()
        yield batch
    # Arrow takes the end of the bytes for that of the stream, wherever a message ends.
    source.seek(at)
    if source.read(len(END)) != END:
        raise EOFError("the stream has no end")
    if source.read(1):
        raise EOFError("there is more behind the end of the stream")


def _read_whole(file: BinaryIO, length: int) -> pa.Buffer:
    """Read a file into memory that is Arrow's own.

    Raises:
        EOFError: It became shorter meanwhile.
    """
    buffer = pa.allocate_buffer(length)
    view = memoryview(buffer)
    readinto = cast("io.RawIOBase", file).readinto
    at = 0
    while at < length:
        if not (count := readinto(view[at:])):
            raise EOFError("it became shorter while it was read")
        at += count
    return buffer


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Cut a batch where it would be too large once what repeats in it is written out."""
    heaviest = sum(map(_row_bytes, batch.columns))
    rows = max(1, min(ROWS, int(BATCH_BYTES // max(heaviest, 1))))
    for start in range(0, batch.num_rows, rows):
        yield start, min(rows, batch.num_rows - start)


def _row_bytes(array: pa.Array) -> float:
    """What a row of a column takes at most, or about so much where it is nested."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        longest = pc.max(pc.binary_length(array.dictionary)).as_py()
        return float(longest or 0) + 1
    if pa.types.is_struct(kind):
        return sum(map(_row_bytes, array.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = array.flatten()
        return _row_bytes(items) * len(items) / max(len(array), 1)
    return array.nbytes / max(len(array), 1)  # type: ignore[no-any-return]


def _mapped(file: BinaryIO, name: str) -> mmap.mmap:
    """Map a copy of a file: one that is cut off while it is mapped would end the process."""
    try:
        with tempfile.TemporaryFile(prefix="singerlake-", suffix=".batch") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise StoreError(
            f"cannot keep {name} in {tempfile.gettempdir()}: {error.strerror}: check that folder "
            "and its free space, or set TMPDIR to another"
        ) from error
