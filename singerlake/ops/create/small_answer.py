"""The answer of DuckDB to a query of the set, as the rows of a new table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from singerlake.engine.local import LocalEngine, Parts
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns
from singerlake.ops.create.answer import PART, QueryAnswer
from singerlake.ops.create.answer_schema import schema_of_columns
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.sql.local.small_query import SmallQuery


class SmallAnswer(QueryAnswer[Parts]):
    """The result of a query, all of it computed; to be used as a context.

    Args:
        asked: The query; it stays the caller's.

    Raises:
        OutsideError: DuckDB does not answer the query as Spark does.
    """

    def __init__(self, asked: SmallQuery) -> None:
        self.engine = LocalEngine()
        self._held = ExitStack()
        with ExitStack() as held:
            self._rows = held.enter_context(self.engine.keep([asked.rows]))
            next(self.engine.batches(self._rows), None)  # from now on, Spark is not asked instead
            self._held = held.pop_all()
        self._types: Columns = tuple((name, one.type) for name, one in asked.statement.items)
        self.names = [name for name, _ in self._types]
        turned = asked.tables.turned
        self.sources = [
            replace(one, version=one.version or turned.get(one.table))
            for one in asked.tables.sources.values()
        ]
        self.states = asked.states
        self.lineage = asked.lineage

    def __enter__(self) -> SmallAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def schema(self, keys: Sequence[str]) -> SchemaEntry:  # noqa: D102
        return schema_of_columns(self._types, list(keys))

    def rows(self, columns: Columns) -> Parts:  # noqa: D102
        schema = pa.schema(
            [
                pa.field(n, arrow_type(t))
                for n, (_, t) in zip(aliases(columns), columns, strict=True)
            ]
        ).append(pa.field(PART, pa.int32()))

        def placed(batches: Batches) -> Batches:
            for batch in batches:
                cells = [
                    column if column.type == field.type else column.cast(field.type)
                    for column, field in zip(batch.columns, schema, strict=False)
                ]
                part = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
                yield pa.RecordBatch.from_arrays([*cells, part], schema=schema)

        return self.engine.map(self._rows, placed, schema)
