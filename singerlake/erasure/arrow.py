"""Opens files and streams of Arrow's own format, whose buffers may be packed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from singerlake.erasure.reading import CopySource
from singerlake.records.given.arrow.parquet_rows import seekable

FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""How a file begins, and how a stream does; other bytes may begin as a stream does."""
MAGICS = (FILE, STREAM)


def opened(source: CopySource, begin: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Open a file or a stream; None where the bytes are no stream after all.

    Args:
        source: The file.
        begin: How it begins.

    Raises:
        pa.ArrowException: It begins as a file, and is not a whole one.
    """
    packed = pa.PythonFile(seekable(source), "r")
    if begin.startswith(FILE):
        file = pa.ipc.open_file(packed)
        return file.schema, map(file.get_batch, range(file.num_record_batches))
    try:
        stream = pa.ipc.open_stream(packed)
    except (pa.ArrowException, OSError):
        return None
    return stream.schema, iter(stream)
