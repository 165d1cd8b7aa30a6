"""The rows of a query as the first transaction of a new table.

The rows are computed once and kept, so that a query that answers differently each time is checked
and written as one answer. Everything that the rows can be refused for is checked before the first
lock. What was written is read back as the table that it will be, and its fingerprint compared with
the query's, before the one log entry makes it one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, Entry, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import Columns, Kind, columns_of
from singerlake.lake import Lake
from singerlake.lineage import told
from singerlake.log.commit import current_user, preview
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.ops.change.plan import ChangeOptions, check_words, with_version
from singerlake.ops.change.version import Freezing
from singerlake.ops.create import create as plans
from singerlake.ops.create.answer import QueryAnswer
from singerlake.ops.create.create import Created
from singerlake.ops.create.first_blocks import FirstBlocks, in_order
from singerlake.ops.create.query_records import CHECKED, PartWriter, RowChecker
from singerlake.ops.create.record_writer import WRITTEN
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.state.fingerprint import Content, Proof, Sums
from singerlake.safe_text import visible
from singerlake.snapshot.content import state_content
from singerlake.snapshot.key_violations import key_violations

PART_BYTES = 128 << 20
"""Bytes in memory that one task writes, about; smaller parts are put together."""
_WORTHWHILE = 4 << 20
"""Bytes below which another task makes more small files than it saves time."""


def create_of(
    lake: Lake,
    table: TableName,
    sql: str,
    answer: QueryAnswer[Any],
    *,
    keys: tuple[str, ...] = (),
    options: ChangeOptions | None = None,
) -> Created:
    """Make a table of what a query gave.

    Args:
        lake: The lake that gets the table.
        sql: The query, for the log.
        answer: Its rows.
        keys: Columns that are the new table's key.
        options: How; ``if_transaction`` and ``overwrite`` mean nothing here.

    Raises:
        UsageError: The key is no key of these rows, or what is to be kept with the transaction
            cannot be.
        InvalidQueryError: A column or a value has no place in a lake.
        ConflictError: Another process made the table meanwhile.
    """
    options = options or ChangeOptions()
    check_words(options)
    made = lake.table(table)
    with told(made, "create", active=not options.dry_run) as telling, answer.plain_errors():
        check_key_names(keys, answer.names)
        schema = answer.schema(keys)
        done = _Job(lake, table, schema, sql, answer, options).run()
        for state in answer.states:
            telling.read(state)
        rows, version = done.rows, done.version
        telling.wrote(made.snapshot, rows=rows, version=version, columns=answer.lineage)
        return done


def check_key_names(keys: tuple[str, ...], columns: list[str]) -> None:
    """Make sure that a query has the columns that are to be a key.

    Raises:
        UsageError: It lacks one, or one is named twice.
    """
    if len(set(keys)) < len(keys):
        raise UsageError(f"a key column is named twice: {', '.join(keys)}")
    if lacking := [key for key in keys if key not in columns]:
        raise UsageError(
            f"the query has no column {lacking[0]!r} to use as the key: "
            f"{offer(lacking[0], columns)}"
        )


class _Job:
    def __init__(
        self,
        lake: Lake,
        table: TableName,
        schema: SchemaEntry,
        sql: str,
        answer: QueryAnswer[Any],
        options: ChangeOptions,
    ) -> None:
        self._engine = answer.engine
        self._lake = lake
        self._table = table
        self._schema = schema
        self._hash = schema_hash(schema.schema, schema.key_properties)
        self._columns: Columns = columns_of(schema)
        self._sql = sql
        self._answer = answer
        self._options = options
        self._parts = 0
        names = [name for name, _ in self._columns]
        self._keys = [names.index(key) for key in schema.key_properties]
        for name, type_ in (self._columns[index] for index in self._keys):
            if type_.kind in (Kind.STRUCT, Kind.LIST):
                raise UsageError(f"{name!r} cannot be a key: it is {type_}")

    def run(self) -> Created:
        with self._engine.keep(self._answer.rows(self._columns)) as rows:
            content, size = self._checked(rows)
            self._check_unique(rows, content.rows)
            return self._write(rows, content, size)

    def _checked(self, rows: Any) -> tuple[Content, int]:
        engine, checker = self._engine, RowChecker(self._columns, self._keys)
        # A few numbers a part come back, never rows.
        parts = engine.collect(engine.map(rows, checker, CHECKED))
        self._parts = len(parts)
        count = sum(part["rows"] for part in parts)
        for n, key in enumerate(self._schema.key_properties):
            if nulls := sum(part["nulls"][n] for part in parts):
                raise UsageError(f"{key!r} cannot be a key: it is null in {nulls} of {count} rows")
        sums = Sums((Proof.VALUES,))
        for part in parts:
            sums.add(part)
        return sums.content(), sum(part["bytes"] for part in parts)

    def _check_unique(self, rows: Any, count: int) -> None:
        if not self._keys:
            return
        columns = tuple(self._columns[index] for index in self._keys)
        read = partial(self._engine.map, rows)
        found = key_violations(self._engine, read, columns, list(map(alias, self._keys)), count)
        if found:
            values, times = found.first[0]
            pairs = zip(found.names, values, strict=True)
            raise UsageError(
                f"{', '.join(found.names)} cannot be the key: {found.keys} of its values occur "
                f"more than once, such as {', '.join(f'{n} {visible(v)}' for n, v in pairs)}: "
                f"{times} times"
            )

    def _write(self, rows: Any, content: Content, size: int) -> Created:
        if self._options.dry_run:
            return self._created(content, None)
        blocks = FirstBlocks(
            self._engine, self._lake, self._table, self._hash, self._options.writing
        )
        done = blocks.commit(
            lambda: self._write_blocks(blocks, rows, size) if content.rows else [],
            self._entry,
            lambda first: self._with_version(self._read_back(first, content)),
        )
        return self._created(content, done)

    def _created(self, content: Content, done: TableState | None) -> Created:
        return Created(
            table=self._table,
            transaction=None if done is None else done.number,
            rows=content.rows,
            blocks=0 if done is None else done.transactions[-1].blocks,
            fingerprint=content.fingerprint,
            schema_hash=self._hash,
            key_properties=self._schema.key_properties,
            sources=list(self._answer.sources),
            columns=self._columns,
            version=done.frozen[-1] if done is not None and done.frozen else None,
        )

    def _with_version(self, first: Entry) -> Entry:
        if not self._options.new_version:
            return first
        table = self._lake.table(self._table)
        version, lanes = Freezing(self._engine, table, self._options)(
            TableState(self._table), first
        )
        return with_version(first, version, lanes)

    def _write_blocks(self, blocks: FirstBlocks, rows: Any, size: int) -> list[Block]:
        least = self._engine.parts
        wanted = max(least if size >= least * _WORTHWHILE else 1, -(-size // PART_BYTES))
        if wanted < self._parts:
            rows = self._answer.gathered(rows, wanted)
        writer = PartWriter(
            store=self._lake.store,
            table=self._table,
            columns=self._columns,
            schema=self._schema,
            schema_hash=self._hash,
            micros=blocks.micros,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
        )
        return in_order(blocks.collect(self._engine.map(rows, writer, WRITTEN), self._parts))

    def _entry(self, blocks: list[Block], writer_id: str) -> Entry:
        sources = [
            {
                "table": str(s.table),
                "version": s.version,
                "transaction": s.transaction,
                "commit": s.commit,
                **({"erased": s.erased} if s.erased else {}),
            }
            for s in self._answer.sources
        ]
        comment = self._options.comment
        said = {} if comment is None else {"comment": comment}
        return plans.draft(
            self._table,
            self._hash,
            self._schema,
            blocks,
            writer_id=writer_id,
            metadata={
                **self._options.metadata,
                **said,
                "by": current_user(),
                "query": self._sql,
                "sources": sources,
            },
            metrics={"rows": sum(block.rows for block in blocks)},
        )

    def _read_back(self, first: Entry, content: Content) -> Entry:
        """Read what was written as the table that it will be."""
        after = preview(TableState(self._table), first)
        table = self._lake.table(self._table)
        written = state_content(self._engine, table, after, (Proof.VALUES,))
        if written != content:
            raise SingerlakeError(
                f"the written rows of {self._table} differ from the result of the query "
                f"({written.rows} rows, {content.rows} expected): nothing was committed. Parts of "
                "the query may have run twice with different results; run it again"
            )
        return first
