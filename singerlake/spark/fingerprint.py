"""The content fingerprint: proves later that a version still reads the same.

For each row, the canonical text of its columns (``canonical.py``), in UTF-8, is hashed with
SHA-256; the first 16 bytes of the digest are a number, most significant byte first. The
fingerprint is the sum of these numbers over all rows, modulo 2^128, as 32 hexadecimal digits
in lower case. A sum knows no order, so neither partitions nor engines matter, and a row that
is there twice counts twice. Of an empty table it is 32 zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from singerlake.spark.canonical import row_texts
from singerlake.spark.columns import Columns

BITS = 128


@dataclass(frozen=True)
class Content:
    """What a state comes down to.

    Attributes:
        rows: How many rows it has.
        fingerprint: 32 hexadecimal digits over their values.
    """

    rows: int
    fingerprint: str


@dataclass
class Summer:
    """Sums up the rows of a partition on an executor.

    Attributes:
        columns: Names and types of the columns, in the order in which they come.
    """

    columns: Columns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a partition: how many rows there were, and their sum."""
        rows, total = 0, 0
        for batch in batches:
            rows += batch.num_rows
            total += batch_sum(batch, self.columns)
        yield pa.RecordBatch.from_pydict({"rows": [rows], "total": [digits(total)]})


def batch_sum(batch: pa.RecordBatch, columns: Columns) -> int:
    """The sum of a batch's row numbers."""
    if not batch.num_rows:
        return 0
    texts = row_texts(batch, columns).cast(pa.large_binary()).to_pylist()
    if len(texts) != batch.num_rows:
        raise AssertionError("not every row has a text")  # a fingerprint must not miss one
    digests = b"".join([hashlib.sha256(text).digest() for text in texts])
    words = np.frombuffer(digests, dtype=">u4").reshape(-1, 8)[:, :4]
    total = 0
    for word in words.sum(axis=0, dtype=np.uint64).tolist():
        total = (total << 32) + int(word)
    return total


def digits(total: int) -> str:
    """A sum as a fingerprint."""
    return f"{total % (1 << BITS):032x}"


def content(frame: DataFrame, columns: Columns) -> Content:
    """Count and fingerprint the rows of a frame.

    Args:
        frame: Its first columns are those of ``columns``, in their order and under any name.
        columns: Names and types.
    """
    kept = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    kept = kept.select(*kept.columns[: len(columns)])
    if not columns:
        count = frame.count()
        one = int.from_bytes(hashlib.sha256(b"{}").digest()[:16], "big")
        return Content(count, digits(count * one))
    sums = kept.mapInArrow(Summer(columns), "rows long, total string").collect()
    return Content(
        rows=sum(part["rows"] for part in sums),
        fingerprint=digits(sum(int(part["total"], 16) for part in sums)),
    )
