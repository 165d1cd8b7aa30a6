"""Create a table: empty, with columns that somebody lists, or of what a query gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.format import names
from singerlake.format.log import SchemaEntry
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import columns_of
from singerlake.lake import Lake
from singerlake.log.scan import is_table
from singerlake.log.table_state import TableState
from singerlake.nearest import bare
from singerlake.ops.change.plan import ChangeOptions, check_words
from singerlake.ops.create import create as plans
from singerlake.ops.create.create import Created
from singerlake.sql.answers import first_here

if TYPE_CHECKING:
    from singerlake.ops.create.answer import QueryAnswer

WHAT = "create-table --from-query"


@dataclass(frozen=True)
class CreateOptions:
    """The options of a new table, made either of a query or of a schema.

    Attributes:
        sql: A query: one SELECT.
        keys: Columns of it that are the table's key.
        schema: The columns and the key of a table without rows.
        change: How; ``if_transaction`` and ``overwrite`` mean nothing here.
    """

    sql: str | None = None
    keys: Sequence[str] = ()
    schema: SchemaEntry | None = None
    change: ChangeOptions = field(default_factory=ChangeOptions)


def plan(lake: Lake, name: str) -> TableState:
    """Check that a table of a name can be made, before Java starts or a lake is.

    Args:
        name: ``tap.stream``.

    Returns:
        What its first transaction goes on from: the log of dropped tables, if any.

    Raises:
        UsageError: There is such a table, or one with a dash where this name has an underscore.
        DamagedError: There are files whose log is lost.
    """
    new = plans.new_name(name)
    like = [tap for tap in lake.taps() if bare(tap) == bare(new.tap)]
    for other in names.alike(new, [table for tap in like for table in lake.tables(tap)]):
        if other != new and is_table(lake.store, other):
            raise UsageError(
                f"there is a table {other} already, which {new} also means in SQL: choose another "
                "name"
            )
    return plans.check_new(lake.store, new)


def create(
    lake: Lake,
    name: str,
    options: CreateOptions,
    choice: EngineChoice | None = None,
    *,
    planned: TableState | None = None,
) -> Created:
    """Make a table.

    Args:
        lake: The lake that is asked, and that gets the table.
        name: ``tap.stream``.
        planned: What a caller has just got from :func:`plan`.

    Raises:
        UsageError: There is such a table already, the key is no key of these rows, or what is to
            be kept with the transaction cannot be.
        InvalidQueryError: It is no SELECT, or a column or value has no place in a lake.
        NotFoundError: It names a table that is not there.
        ConflictError: Another process made the table meanwhile.
    """
    check_words(options.change)
    if (options.sql is None) == (options.schema is None):
        raise UsageError("a table is created from either a query or a schema: pass one of them")
    before = planned or plan(lake, name)
    if options.schema is not None:
        return _empty(lake, before, options.schema, options.change)
    return _of_query(lake, before, options, choice or EngineChoice())


def _empty(lake: Lake, before: TableState, schema: SchemaEntry, change: ChangeOptions) -> Created:
    if change.new_version:
        raise UsageError(
            "--new-version requires --from-query: an empty table has nothing to freeze"
        )
    made = None
    if not change.dry_run:
        made = plans.create_empty(
            lake.store,
            before.table,
            schema,
            comment=change.comment,
            metadata=change.metadata,
            known_taps=lake.file.taps if lake.file is not None else (),
        )
    return Created(
        table=before.table,
        transaction=None if made is None else made.number,
        rows=0,
        blocks=0,
        fingerprint="",
        schema_hash=schema_hash(schema.schema, schema.key_properties),
        key_properties=schema.key_properties,
        sources=[],
        columns=columns_of(schema),
    )


def _of_query(
    lake: Lake, before: TableState, options: CreateOptions, choice: EngineChoice
) -> Created:
    sql = options.sql or ""

    def made(answer: QueryAnswer[Any]) -> Created:
        from singerlake.ops.create.query_rows import create_of

        keys, change = tuple(options.keys), options.change
        return create_of(lake, before.table, sql, answer, keys=keys, options=change)

    def here() -> Created:
        from singerlake.ops.create.small_answer import SmallAnswer
        from singerlake.sql.local.small_query import SmallQuery

        with SmallQuery(lake, sql, choice) as asked, SmallAnswer(asked) as answer:
            return made(answer)

    def on_spark(purpose: str) -> Created:
        engine: Any = choice.spark_engine(purpose)
        from singerlake.ops.create.spark_answer import SparkAnswer  # late: they import PySpark
        from singerlake.sql.queries.query import query

        # Its leases are given up here: where the collector does it, Ctrl-C is lost in there.
        with query(engine.spark, lake, sql) as result:
            return made(SparkAnswer(engine, result))

    return first_here(choice, WHAT, here, on_spark)
