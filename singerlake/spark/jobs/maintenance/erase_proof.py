"""Proves, before an erasure is committed, that each state is the old one less exactly its rows.

Fingerprints are hashes of sums. So the sums over what a version is without the rows, and over those
of its rows that go, make together the fingerprint that the version was frozen with: or the
erasure would change something else, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import DamagedError
from singerlake.format.log import Block, FrozenVersion
from singerlake.format.set_hash import SetHash
from singerlake.format.version_notes import ErasedVersion
from singerlake.lake import Table
from singerlake.records.blocks.misfits import NULL
from singerlake.records.rows.row_columns import BLOCK, DELETED, DIGEST, ORDINAL, VERSION
from singerlake.records.state.activations import Survival
from singerlake.records.state.fingerprint import Content, Proof, claims, digits
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.state import frames, from_blocks
from singerlake.spark.state.content import frame_content, state_content
from singerlake.transactions import versions
from singerlake.transactions.snapshot import Snapshot

BITS = 128


@dataclass(frozen=True)
class ErasureProof:
    """Counts the states that lose rows, as they were and as they will be.

    Attributes:
        spark: The session.
        table: The table.
        before: Its head.
        after: What it will be.
        gone: Positions of the lines that go, as ``block`` and ``row``.
        touched: The blocks that lose them, as they are.
    """

    spark: SparkSession
    table: Table
    before: Snapshot
    after: Snapshot
    gone: DataFrame
    touched: Sequence[Block]

    def versions(self) -> list[ErasedVersion]:
        """Return what versions are without the rows, where they had any.

        Raises:
            DamagedError: One would not be what it is less exactly these rows; or the blocks
                would not.
        """
        first = min(block.number for block in self.touched)
        known: dict[tuple[object, ...], tuple[Content, Content]] = {}
        found: list[ErasedVersion] = []
        for version in versions.protecting(self.before, self.before.floor):
            at = self.before.frozen_as(version).earliest_equal()
            if at.last_block < first:
                continue
            wanted = tuple(claims(version))
            same = (at.number, at.schema_hash, max(at.overlays, default=0), at.rules, wanted)
            if same not in known:
                known[same] = self._parts(at, wanted)
            left, went = known[same]
            self._check(f"version {version.number}", version.rows, claims(version), left, went)
            if went.rows:
                found.append(_erased(version, left))
        self._check_blocks()
        return sorted(found, key=lambda one: one.version)

    def going(self) -> list[ErasedVersion]:
        """Return how many rows versions would have, without counting what would be left."""
        found: list[ErasedVersion] = []
        for version in versions.protecting(self.before, self.before.floor):
            at = self.before.frozen_as(version).earliest_equal()
            if at.last_block >= min(block.number for block in self.touched):
                went = self._going(at, tuple(claims(version)))
                if went.rows:
                    left = version.rows - went.rows
                    told = ErasedVersion(
                        version=version.number, rows_before=version.rows, rows=left, fingerprint=""
                    )
                    found.append(told)
        return sorted(found, key=lambda one: one.version)

    def _parts(self, at: Snapshot, wanted: tuple[Proof, ...]) -> tuple[Content, Content]:
        """What a state will be, and what of it goes."""
        now = self.after.at(at.number).by_rules(at.rules)
        left = state_content(self.spark, self.table, now, wanted, misfits=NULL)
        return left, self._going(at, wanted)

    def _going(self, at: Snapshot, wanted: tuple[Proof, ...]) -> Content:
        """The rows of a state that go."""
        shape = shape_of(at)
        if at.key_reading == self.before.key_reading:
            # All lines of these keys are in the blocks that lose them: no other need be read.
            at = replace(at, blocks=[b for b in self.touched if b.number <= at.last_block])
        with plain_errors():
            rows = from_blocks.rows(self.spark, self.table, at, digests=True, shape=shape)
            here = (F.col(BLOCK) == F.col("block")) & (F.col(ORDINAL) == F.col("row"))
            return frame_content(rows.join(self.gone, here, "left_semi"), shape.columns, wanted)

    def _check_blocks(self) -> None:
        """Make sure that the new blocks have the lines of the old, in their places, less these.

        The rows' keys are those of the present state, so no more is needed for it: it has lost
        all lines of these keys, and of all others it has what it had.
        """
        numbers = {block.number for block in self.touched}
        after = [block for block in self.after.blocks if block.number in numbers]
        with plain_errors():
            was, now = self._lines(self.touched), self._lines(after)
            gone = self.gone.select(F.col("block").alias(BLOCK), F.col("row").alias(ORDINAL))
            left = was.join(gone, [BLOCK, ORDINAL], "left_anti")
            # As exceptAll() from either side, of which each would read all blocks.
            both = left.withColumn("n", F.lit(1)).unionAll(now.withColumn("n", F.lit(-1)))
            counts = both.groupBy(*left.columns).agg(F.sum("n").alias("n"))
            if counts.where(F.col("n") != 0).isEmpty():
                return
        raise DamagedError(
            f"{self.table.name}: without these rows its blocks would not be what they are less "
            "exactly them; a block is damaged (singerlake verify tells which); nothing was changed"
        )

    def _lines(self, blocks: Sequence[Block]) -> DataFrame:
        """Where lines are, their records' digests and whether they delete."""
        shape = Shape((), (), Survival())
        rows = frames.read_blocks(self.spark, self.table, self.after, blocks, shape, digests=True)
        return rows.select(BLOCK, ORDINAL, VERSION, DIGEST, DELETED)

    def _check(
        self, what: str, rows: int, told: Mapping[Proof, str], left: Content, went: Content
    ) -> None:
        whole = {proof: _together(proof, left, went) for proof in told}
        if (left.rows + went.rows, whole) != (rows, dict(told)):
            raise DamagedError(
                f"{self.table.name}: without these rows {what} would not be what it is less "
                f"exactly them ({rows:,} rows; {left.rows:,} would be left, and {went.rows:,} go). "
                "Either a block or the version is damaged (singerlake verify tells), or the table "
                "had another key then, by which older rows would come back; nothing was changed"
            )


def _together(proof: Proof, one: Content, other: Content) -> str:
    """The fingerprint of two sets of rows put together."""
    if proof is Proof.ACCIDENT:
        total = sum(int(each.proofs[proof], 16) for each in (one, other))
        return digits(total % (1 << BITS))
    hashes: list[SetHash] = [each.hashes[proof] for each in (one, other)]
    return (hashes[0] + hashes[1]).text


def _erased(version: FrozenVersion, left: Content) -> ErasedVersion:
    """What the log says of a version from then on."""
    if version.only_against_accident:
        proofs = {Proof.VALUES: left.proofs[Proof.ACCIDENT]}
    else:
        proofs = {**left.proofs}
    return ErasedVersion(
        version=version.number,
        rows_before=version.rows,
        rows=left.rows,
        fingerprint=proofs[Proof.VALUES],
        record_fingerprint=proofs.get(Proof.RECORDS, ""),
        lanes={proof.value: hashed.encoded for proof, hashed in left.hashes.items()},
    )
