"""The version of what a change leaves: worked out before the change is committed, with it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from singerlake.format.log import Entry, FrozenVersion
from singerlake.lake import Table
from singerlake.maintenance.change import ChangeOptions
from singerlake.maintenance.freeze import misfits_error
from singerlake.records.state.fingerprint import Content
from singerlake.records.state.shape import shape_of
from singerlake.spark.jvm.progress import stages
from singerlake.spark.sql.violations import check_constraints, violations_error
from singerlake.spark.state import content, fold, frames, from_blocks, index_build, index_rows
from singerlake.transactions.commit import current_user, preview
from singerlake.transactions.snapshot import Snapshot


class Freezing:
    """Freezes what a change leaves. Called for each state that it may be committed on.

    Args:
        spark: The session.
        table: The table.
        options: Label and comment.
    """

    def __init__(self, spark: SparkSession, table: Table, options: ChangeOptions) -> None:
        self._spark = spark
        self._table = table
        self._options = options
        self._known: tuple[tuple[int, int], Content] | None = None

    def __call__(self, present: Snapshot, draft: Entry) -> tuple[FrozenVersion, Mapping[str, str]]:
        """Make the version that follows a snapshot, and its lanes.

        Raises:
            MisfitsError: A value of the state does not fit its column.
            ViolationsError: Its rows do not keep the table's constraints.
        """
        after = preview(present, draft)
        state = (present.last_block, after.last_block)
        if self._known is None or self._known[0] != state:
            with stages(self._spark, "adding up fingerprints"):
                self._known = state, self._content(present, after)
        found = self._known[1]
        version = FrozenVersion(
            number=present.last_version + 1,
            transaction=after.number,
            schema_hash=after.schema_hash,
            rows=found.rows,
            fingerprint=found.fingerprint,
            record_fingerprint=found.record_fingerprint,
            label=self._options.label,
            comment=self._options.comment,
            by=current_user(),
            types=after.rules,
        )
        lanes = {proof.value: hashed.encoded for proof, hashed in found.hashes.items()}
        return version, lanes

    def _content(self, present: Snapshot, after: Snapshot) -> Content:
        frame, shape = self._rows(present, after), shape_of(after)
        if misfits := content.frame_misfits(frame, shape):
            raise misfits_error(after, misfits)
        if broken := check_constraints(frame, shape, after.overlay.constraints):
            raise violations_error(after, broken)
        return content.frame_content(frame, shape.columns)

    def _rows(self, present: Snapshot, after: Snapshot) -> DataFrame:
        """The state's rows: those that were there come from their index, the new from blocks."""
        spark, table, shape = self._spark, self._table, shape_of(after)
        new = after.blocks_after(present.number)
        if not present.reads_like(after) or any(block.activations for block in new):
            return from_blocks.rows(spark, table, after, digests=True)
        index = index_build.ensure(spark, table, present)
        frame = index_rows.rows(spark, index, digests=True)
        if not new:
            return frame
        later = frames.read_blocks(spark, table, after, new, shape, digests=True)
        size = sum(block.bytes for block in new) + 3 * index.bytes
        return fold.fold(fold.undeleted(frame).unionAll(later), shape, size)
