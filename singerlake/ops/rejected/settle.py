"""The dead-letter table after a replay: records that are rows now go, others get a new reason.

It follows from the log of the table itself, and is done again by the next replay where a process
died before it. So no moment is without the record: it is a row before it is no rejected record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from singerlake.errors import ConflictError
from singerlake.format import messages, times
from singerlake.format.log import Block, Entry, Operation, SchemaEntry
from singerlake.lake import Table
from singerlake.log import conflicts, log
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.deletion_schema import declaring, hash_of
from singerlake.log.staging import publish_blocks, replace_block
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions, clean_up, hold_locks, update_checkpoint
from singerlake.ops.rejected.kept import KeptLine, kept_lines
from singerlake.rows.lines.block_builder import BlockBuilder

ATTEMPTS = 5
_MOST_ROWS = 25_000


@dataclass(frozen=True)
class Settlement:
    """What becomes of kept lines.

    Attributes:
        gone: Lines that are rejected no longer.
        reasons: Lines that stay, each with its new reason.
    """

    gone: Sequence[KeptLine] = ()
    reasons: Sequence[tuple[KeptLine, str]] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.gone or self.reasons)


Settling = Callable[[TableState, Iterable[KeptLine]], Settlement]
"""Decides it from the dead-letter table as it is."""


@dataclass(frozen=True)
class SettleOptions:
    """The options of such a transaction.

    Attributes:
        metadata: What it says besides who made it.
        check: Called before the commit; raises if the caller's own lock is lost.
    """

    comment: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    writing: WriteOptions = field(default_factory=WriteOptions)


class _OvertakenError(ConflictError):
    """Records were rejected in the meantime."""


def settle(table: Table, settling: Settling, options: SettleOptions) -> TableState:
    """Commit what becomes of kept lines, if anything does; gives the table after it.

    Raises:
        ConflictError: Syncs keep rejecting records; nothing was changed.
    """
    state = table.snapshot()
    for _ in range(ATTEMPTS):
        wanted = settling(state, kept_lines(table, state))
        if wanted.empty:
            return state
        try:
            after = _committed(table, state, wanted, options)
        except _OvertakenError:
            state = log.refresh(table.store, state)
            state.check_there()
        else:
            return update_checkpoint(table.store, after)
    raise ConflictError(
        f"other processes keep changing {table.name}: it was left unchanged; run it again"
    )


def _committed(
    table: Table, state: TableState, wanted: Settlement, options: SettleOptions
) -> TableState:
    entry, deletion = state.tap_schema, declaring(state.tap_schema)
    schemas = {hash_of(entry): entry}
    if wanted.gone:
        schemas[hash_of(deletion)] = deletion
    writer_id = new_writer_id()
    with hold_locks(table.store, table.name, schemas, writer_id, options.writing) as locks:
        blocks: list[Block] = []

        def check() -> None:
            locks.check()
            options.check()

        def draft(present: TableState) -> Entry:
            if conflicts.rows_changed_since(present, state.number):
                raise _OvertakenError(f"{table.name} changed in the meantime")
            new = {name: one for name, one in schemas.items() if name not in present.schemas}
            comment = {} if options.comment is None else {"comment": options.comment}
            return draft_entry(
                table.name,
                Operation.REPLAY,
                writer=writer_id,
                schema_hash=state.schema_hash,
                schemas=new,
                blocks=numbered(blocks, present),
                metadata={**options.metadata, "by": current_user(), **comment},
                metrics={"removed": len(wanted.gone), "kept": len(wanted.reasons)},
            )

        try:
            blocks += _published(table, wanted, entry, deletion)
            return commit(table.store, state, draft, waiting=options.writing.waiting, check=check)
        except BaseException as error:
            clean_up(error, locks, lambda: withdraw(table, blocks))
            raise


def numbered(blocks: Sequence[Block], present: TableState) -> list[Block]:
    """Return new blocks as the entry after a state names them."""
    return [
        replace_block(block, number=number)
        for number, block in enumerate(blocks, start=present.last_block + 1)
    ]


def withdraw(table: Table, blocks: Sequence[Block]) -> None:
    """Delete published blocks that no entry names."""
    for file in {block.file for block in blocks}:
        table.store.delete(table.name.data(file))


def blocks_of(
    stream: str, lines: Iterable[tuple[SchemaEntry, bytes]]
) -> Iterator[tuple[str, bytes, Block]]:
    """Make blocks of RECORD lines, each with its newline and with the schema that it is under."""
    for entry, some in groupby(lines, key=itemgetter(0)):
        schema_line, schema_hash = messages.schema_line(stream, entry), hash_of(entry)
        builder = BlockBuilder(schema_line)
        for _, line in some:
            builder.add(line.removesuffix(b"\n"))
            if builder.full(_MOST_ROWS):
                yield schema_hash, *builder.block()
                builder = BlockBuilder(schema_line)
        if builder.lines:
            yield schema_hash, *builder.block()


def _published(
    table: Table, wanted: Settlement, entry: SchemaEntry, deletion: SchemaEntry
) -> list[Block]:
    stream, now = table.name.stream, times.iso(times.now())
    gone = [(deletion, _deletion(stream, line, now)) for line in wanted.gone]
    # With the time of its rejection: it tells which of two records of a key is older.
    reasons = [
        (entry, messages.record_line(stream, line.row(reason), line.time or now))
        for line, reason in wanted.reasons
    ]
    return publish_blocks(table.store, table.name, blocks_of(stream, [*gone, *reasons]))


def _deletion(stream: str, line: KeptLine, now: str) -> bytes:
    """Build the line that deletes a kept line: with its key, and nothing of the record."""
    record = msgspec.json.encode({"digest": line.digest, messages.DELETED: now})
    return messages.record_line(stream, record, now)
