"""Rows that go back to what they were: their lines written again, or once more as deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from singerlake.format import messages, times
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import member_of
from singerlake.lake import Table
from singerlake.log.commit import new_writer_id
from singerlake.log.deletion_schema import deletion_schemas, hash_of
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.log.writer import (
    WriteOptions,
    clean_up,
    hold_locks,
    update_catalogues,
    update_checkpoint,
)
from singerlake.ops.rows_back.actions import Actions, Counted
from singerlake.ops.rows_back.revert_plan import new_singer_version
from singerlake.rows.lines import line_writer
from singerlake.rows.lines.line_writer import LineWriter
from singerlake.rows.lines.written_defaults import DefaultsWritten, defaults_written


@dataclass(frozen=True)
class Written:
    """The files that were written, and no log entry names yet.

    Attributes:
        blocks: In order; the commit numbers them.
        put_back: Rows that were written as they were.
        writer_id: Who holds the locks.
        check: Raises if they are lost.
    """

    blocks: list[Block]
    put_back: int
    deleted: int
    writer_id: str
    check: Callable[[], None]


@dataclass
class LinesAgain:
    """Writes lines of a table again, by the positions of their rows.

    Attributes:
        schema_hash: The schema that is in effect afterwards.
        deletions: The schemas to delete rows under, where not their own, by the hashes of these.
        defaults: What lines must say of columns that people added, by the hashes of their schemas.
    """

    table: Table
    head: TableState
    schema_hash: str
    deletions: Mapping[str, SchemaEntry] = field(default_factory=dict)
    defaults: Mapping[str, DefaultsWritten] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Table,
        head: TableState,
        schema_hash: str,
        *,
        deleted_under: Iterable[str],
        put_back_under: Iterable[str],
    ) -> LinesAgain:
        """Find the schemas that are needed.

        Args:
            schema_hash: The schema that is in effect afterwards.
            deleted_under: Schemas of the rows that may be deleted.
            put_back_under: Schemas of those that may be put back.
        """
        deletions = deletion_schemas(head, deleted_under)
        defaults = defaults_written(head, put_back_under)
        return cls(table, head, schema_hash, deletions, defaults)

    @property
    def schemas(self) -> dict[str, SchemaEntry]:
        """The schemas that rows may be written under, by hash: all of the table, and new ones."""
        declared = {one.hash: one.entry for one in self.defaults.values()}
        deleting = {hash_of(entry): entry for entry in self.deletions.values()}
        return {**self.head.schemas, **declared, **deleting}

    def commit(
        self,
        actions: Actions | None,
        options: WriteOptions,
        committed: Callable[[Written], TableState | None],
        *,
        whole: bool,
    ) -> Written:
        """Write rows under the locks of all schemas, and have them committed.

        Args:
            actions: The rows; None if only the schema goes back.
            committed: Commits what was written; None where there was nothing to commit.
            whole: Whether they are all rows of the table, behind ACTIVATE_VERSION.
        """
        writer_id = new_writer_id()
        with hold_locks(
            self.table.store, self.head.table, self.schemas, writer_id, options
        ) as locks:
            blocks: list[Block] = []
            try:
                deleted = self.write(actions, blocks, whole=whole)
                put_back = sum(block.rows for block in blocks) - deleted
                locks.check()
                written = Written(blocks, put_back, deleted, writer_id, locks.check)
                done = committed(written)
            except BaseException as error:
                clean_up(error, locks, lambda: self.withdraw(blocks))
                raise
        if done is not None:
            update_checkpoint(self.table.store, done)
            update_catalogues(self.table.store, [done])
        return written

    def write(self, actions: Actions | None, blocks: list[Block], *, whole: bool) -> int:
        """Write rows; to be called under the schemas' locks.

        Args:
            actions: As for :meth:`commit`.
            blocks: Takes what was written, in order.
            whole: As for :meth:`commit`.

        Returns:
            How many of them are deletions.
        """
        version = new_singer_version(self.head) if whole else None
        if version is not None:
            schema = self.head.schema_of(self.schema_hash)
            blocks += line_writer.publish_activation(
                self.table.store, self.head.table, self.schema_hash, schema, version
            )
        written, deleted = self._write_lines(actions, version)
        blocks += written
        return deleted

    def withdraw(self, blocks: list[Block]) -> None:
        """Delete the files of blocks that no log entry names."""
        for file in {block.file for block in blocks}:
            self.table.store.delete(self.head.table.data(file))

    def _write_lines(self, actions: Actions | None, version: int | None) -> tuple[list[Block], int]:
        if actions is None:
            return [], 0
        head = self.head
        stamp = times.iso(times.now())
        deletions = {
            name: (hash_of(entry), messages.schema_line(head.table.stream, entry))
            for name, entry in self.deletions.items()
        }

        writer = LineWriter(
            store=self.table.store,
            table=head.table,
            blocks=(),
            version=version,
            stamp=stamp,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
            deletions=deletions,
            defaults=self.defaults,
            key=key_members(head),
        )
        # Descriptions of blocks, and never their rows.
        described = [*actions.write(head.blocks, writer)]
        written = line_writer.in_order(described, self.schema_hash)
        return written, sum(row["deleted"] for row in described)


def check_keys(head: TableState, counted: Counted) -> None:
    """Refuse what the writing would refuse: to delete a row without a value of its key.

    Raises:
        ViolationsError: There is such a row.
    """
    if counted.keyless is not None:
        block, row, part = counted.keyless
        name = member_of(head.overlay, head.schema.key_properties[part])
        if name in key_members(head):
            raise line_writer.cannot_delete(head.table, block, row, name)


def key_members(head: TableState) -> list[str]:
    """Return what every record with a key must have: its members, but for those people added."""
    members = (member_of(head.overlay, name) for name in head.schema.key_properties)
    return [name for name in members if name not in head.overlay.added]
