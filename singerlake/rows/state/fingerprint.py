"""Fingerprints of a state: they prove later that a version still reads the same.

Two fingerprints, each the hash of a set (``format/set_hash.py``), which knows no order, so that
neither files nor partitions nor engines matter, and in which a row that is there twice counts
twice. One is over the canonical texts of the rows' typed values (``canonical_text.py``): any
engine can compute it from published data. The other is over the digests of the records as the
tap wrote them (``digests.py``): two states of different content never share it, whatever their
columns show.

Versions that earlier releases froze have a third: the first 16 bytes of the SHA-256 of each
canonical text, as numbers, summed modulo 2^128. It proves that nothing happened by accident;
whoever may choose rows can forge it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa

from singerlake.format.log import FrozenVersion
from singerlake.format.set_hash import SetHash
from singerlake.format.types import Columns
from singerlake.rows.batches.row_columns import DIGEST
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.canonical_text import row_texts

BITS = 128
SUMMED = "rows long, fingerprint binary, record_fingerprint binary, accident binary"
"""What comes back for each partition, a member for each proof; null where it was not asked for."""


class Proof(Enum):
    """A way to tell one content from another; named as in a version."""

    VALUES = "fingerprint"
    RECORDS = "record_fingerprint"
    ACCIDENT = "accident"


FULL = (Proof.VALUES, Proof.RECORDS)
"""What a version is frozen with."""


@dataclass(frozen=True)
class Content:
    """The count and the fingerprints of a state.

    Attributes:
        rows: How many rows it has.
        proofs: The fingerprints that were asked for.
        hashes: What they are made of, to be added to later.
    """

    rows: int
    proofs: Mapping[Proof, str]
    hashes: Mapping[Proof, SetHash] = field(default_factory=dict, compare=False)

    @property
    def fingerprint(self) -> str:
        """The one over the rows' values."""
        return self.proofs[Proof.VALUES]

    @property
    def record_fingerprint(self) -> str:
        """The one over the records' digests."""
        return self.proofs[Proof.RECORDS]


def claims(version: FrozenVersion) -> dict[Proof, str]:
    """Return the fingerprints that a version claims for its content."""
    if version.only_against_accident:
        return {Proof.ACCIDENT: version.fingerprint}
    claimed = {Proof.VALUES: version.fingerprint, Proof.RECORDS: version.record_fingerprint}
    return {proof: text for proof, text in claimed.items() if text}


class Sums:
    """The sums of some rows: on an executor those of a partition, on the driver of all."""

    def __init__(self, proofs: Iterable[Proof]) -> None:
        self.rows = 0
        self.hashes: dict[Proof, SetHash] = {
            proof: SetHash() for proof in proofs if proof is not Proof.ACCIDENT
        }
        self.accident = 0 if Proof.ACCIDENT in proofs else None

    def take(self, batch: pa.RecordBatch, columns: Columns) -> None:
        """Take some rows in, whose first columns are ``columns``; digests are by name."""
        self.rows += batch.num_rows
        if Proof.VALUES in self.hashes or self.accident is not None:
            texts = row_texts(batch, columns).cast(pa.large_binary()).to_pylist()
            _check_whole(len(texts), batch)  # a fingerprint must not miss one
            if Proof.VALUES in self.hashes:
                self.hashes[Proof.VALUES].add(texts)
            if self.accident is not None:
                self.accident += text_sum(texts)
        if Proof.RECORDS in self.hashes:
            digests = batch.column(DIGEST)
            _check_whole(len(digests) - digests.null_count, batch)
            self.hashes[Proof.RECORDS].add(digests.to_pylist())

    def batch(self) -> pa.RecordBatch:
        """Return the sums as one row."""
        members: dict[str, pa.Array] = {"rows": pa.array([self.rows], pa.int64())}
        for proof in Proof:
            data = self.hashes[proof].data if proof in self.hashes else None
            if proof is Proof.ACCIDENT and self.accident is not None:
                data = digits(self.accident).encode()
            members[proof.value] = pa.array([data], pa.binary())
        return pa.RecordBatch.from_pydict(members)

    def add(self, row: Mapping[str, object]) -> None:
        """Take in what :meth:`batch` made elsewhere."""
        self.rows += int(str(row["rows"]))
        for proof, so_far in self.hashes.items():
            self.hashes[proof] = so_far + SetHash.of_data(bytes(row[proof.value]))  # type: ignore[call-overload]
        if self.accident is not None:
            self.accident += int(bytes(row[Proof.ACCIDENT.value]), 16)  # type: ignore[call-overload]

    def content(self) -> Content:
        """Return what they come down to."""
        proofs = {proof: set_hash.text for proof, set_hash in self.hashes.items()}
        if self.accident is not None:
            proofs[Proof.ACCIDENT] = digits(self.accident)
        return Content(self.rows, proofs, self.hashes)


def _check_whole(count: int, batch: pa.RecordBatch) -> None:
    if count != batch.num_rows:
        raise AssertionError("not every row has a text and a digest")


@dataclass
class Summer:
    """Sums up the rows of a partition on an executor.

    Attributes:
        columns: Names and types of the columns, in the order in which they come first.
    """

    columns: Columns
    proofs: tuple[Proof, ...] = FULL

    def __call__(self, batches: Batches) -> Batches:
        """Give one row a partition."""
        sums = Sums(self.proofs)
        for batch in batches:
            sums.take(batch, self.columns)
        yield sums.batch()


def text_sum(texts: Iterable[bytes]) -> int:
    """Sum up rows as earlier releases did."""
    digests = b"".join([hashlib.sha256(text).digest() for text in texts])
    words = np.frombuffer(digests, dtype=">u4").reshape(-1, 8)[:, :4]
    total = 0
    for word in words.sum(axis=0, dtype=np.uint64).tolist():
        total = (total << 32) + int(word)
    return total


def digits(total: int) -> str:
    """Write such a sum as a fingerprint."""
    return f"{total % (1 << BITS):032x}"
