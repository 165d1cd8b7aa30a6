"""A new table's blocks: written by tasks, and made a table by one log entry or withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.local import LocalEngine
from singerlake.format import names, times
from singerlake.format.log import Block, Entry, decode_block
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.commit import new_writer_id
from singerlake.log.table_state import TableState
from singerlake.log.writer import (
    HeldLocks,
    WriteOptions,
    clean_up,
    hold_locks,
    update_checkpoint,
    update_lake,
)
from singerlake.ops.create import create as plans


@dataclass
class FirstBlocks:
    """Writes a new table's blocks, and commits or withdraws them.

    Attributes:
        lake: The lake that gets the table.
        schema_hash: Its schema's hash.
        options: Locks, and the files that were stored for its rows.
        micros: ``time_extracted`` of the first task's rows, since 1970.
    """

    engine: Engine[Any]
    lake: Lake
    table: TableName
    schema_hash: str
    options: WriteOptions
    micros: int = field(default_factory=lambda: times.micros(times.now()))
    _files: set[str] = field(default_factory=set)
    _parts: int = 0
    _unknown: bool = False

    def commit(
        self,
        write: Callable[[], list[Block]],
        draft: Callable[[list[Block], str], Entry],
        check: Callable[[Entry], Entry],
    ) -> TableState:
        """Make the table.

        Args:
            write: Has tasks write its blocks, by :meth:`collect`.
            draft: Makes the log entry of the blocks and the writer's id.
            check: Looks at what was written, read by the entry; gives the entry to commit.

        Raises:
            ConflictError: Somebody else made the table meanwhile.
        """
        store, table = self.lake.store, self.table
        writer_id = new_writer_id()
        with hold_locks(store, table, [self.schema_hash], writer_id, self.options) as locks:
            before = plans.check_still_new(store, table)
            try:
                first = check(draft(write(), writer_id))
                locks.check()
                done = plans.commit_create(store, before, first, self.options.files)
            except BaseException as error:
                self._clean_up(error, locks)
                raise
        update_checkpoint(store, done)
        update_lake(store, [done], self.lake.file.taps if self.lake.file is not None else ())
        return done

    def collect(self, rows: Any, parts: int) -> list[dict[str, Any]]:
        """Run the tasks that write, and keep in mind which files they made.

        Args:
            rows: The tasks' answers: a description of each block comes back, never its rows.
        """
        self._parts, self._unknown = parts, True
        told = self.engine.collect(rows)
        self._unknown = False
        self._files = {block.file for block in in_order(told)}
        return told

    def _clean_up(self, error: BaseException, locks: HeldLocks) -> None:
        clean_up(error, locks, lambda: self._withdraw(locks))
        if self._unknown and not isinstance(self.engine, LocalEngine):
            # A task that Spark has given up may still be writing. Beside a lock that goes
            # stale, nobody takes its file for a table whose log was lost.
            locks.abandon()

    def _withdraw(self, locks: HeldLocks) -> None:
        store = self.lake.store
        for file in self._files:
            store.delete(self.table.data(file))
        if not self._unknown:
            return
        # The job failed and did not say what its tasks had written. Their times are known, and
        # while the lock is still held nobody else has written here.
        locks.check()
        stamps = (times.iso(times.from_micros(self.micros + part)) for part in range(self._parts))
        own = tuple(names.FileNamer(self.table, self.schema_hash, s, s).stem for s in stamps)
        folder = f"{self.table.folder}{self.schema_hash}/"
        for item in list(store.list(folder)):
            name = item.key[len(folder) :]
            if name.startswith(own) and names.is_data_file(name):
                store.delete(item.key)


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[Block]:
    """Return the blocks that tasks have described, in the order of their rows."""
    written = [
        (row["part"], decode_block(row["block"])) for row in rows if row["block"] is not None
    ]
    written.sort(key=lambda item: item[0])  # stable: a part's blocks come in order
    return [block for _, block in written]
