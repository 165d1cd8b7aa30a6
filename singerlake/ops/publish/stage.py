"""The stage job: a table of the lake brought to what a projection's SQL says, as one transaction.

The transaction holds the difference alone, and its metadata say which states of which tables the
rows were computed of. Where the SQL is row by row over one table and keeps its key, the rows of
that table which came since are all that is read; else everything is computed anew and compared. The
rows come out the same either way: nothing of how they were computed is kept but that position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import SPARK, EngineChoice
from singerlake.errors import ConflictError, UsageError, ViolationsError
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.types import Columns, columns_of
from singerlake.lake import Lake, Table
from singerlake.log import conflicts, log
from singerlake.log.table_state import TableState
from singerlake.ops.change.asked_rows import PART_ROWS
from singerlake.ops.change.change import present_rows
from singerlake.ops.change.job import Changed, change_rows
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import GivenRows, Part
from singerlake.ops.create import create as plans
from singerlake.ops.create.query_rows import check_key_names, create_of
from singerlake.ops.publish.answer import SqlAnswer
from singerlake.ops.publish.answers import instead, opened_sql
from singerlake.ops.publish.outcome import RefreshKind
from singerlake.ops.publish.staged_rows import all_rows, changed_rows, new_rows
from singerlake.ops.publish.write.row_sources import counted
from singerlake.overlay.alter import OverlayChange
from singerlake.publish import refreshes
from singerlake.publish.positions import behind
from singerlake.publish.projection import DECIDE_ROWS, OnSchemaChange, Projection
from singerlake.publish.published import Position, SourceState
from singerlake.publish.refreshes import Refresh
from singerlake.publish.schema_changes import AnswerChange, answer_changes, evolved
from singerlake.rows.batches.row_columns import alias
from singerlake.snapshot.from_blocks import reading
from singerlake.snapshot.key_violations import key_violations
from singerlake.sql.local.outside import OutsideError

ATTEMPTS = 3
"""Times that a refresh begins anew, because somebody else changed the table meanwhile."""


@dataclass(frozen=True)
class Staged:
    """The result of a refresh of a staging table, or of its dry run.

    Attributes:
        how: How the rows were found.
        why: Why all rows were computed, as a clause; empty where they were not.
        changed: What became of the rows. A refresh that found none to change still makes a
            transaction, for how far the table is.
        columns: What became of the columns.
        position: What the table shows from then on.
    """

    projection: Projection
    how: RefreshKind
    why: str
    changed: Changed
    columns: Sequence[AnswerChange]
    position: Position

    @property
    def transaction(self) -> int | None:
        """The transaction that it made; None where it made none."""
        return self.changed.transaction

    @property
    def is_change(self) -> bool:
        """Whether the table has other rows or columns then."""
        done = self.changed
        rows = done.inserted or done.updated or done.deleted
        return self.how is RefreshKind.CREATED or bool(rows or self.columns)


def stage(
    lake: Lake,
    projection: Projection,
    choice: EngineChoice,
    *,
    full_refresh: bool = False,
    dry_run: bool = False,
    at: str | None = None,
) -> Staged:
    """Bring a staging table to what its projection says.

    Args:
        projection: What to stage, and where; it has a ``stage``.
        choice: What may read rows.
        full_refresh: Compute all rows, and compare them, even where less would do.
        dry_run: Only say what would be done.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Raises:
        InvalidQueryError: The SQL cannot be asked, or of an incremental projection: answers
            otherwise each time.
        UsageError: The table is none that a projection made, or the columns are others and the
            projection says that this is an error.
        ViolationsError: The key is not one: null, or there twice.
        ConflictError: Others kept changing the table.
        SingerlakeError: As :func:`change_rows` does.
    """
    stage = projection.stage
    if stage is None:
        raise UsageError(f"the projection {projection.name} has no staging table to refresh")

    def staged(choice: EngineChoice) -> Staged:
        return _staged(lake, projection, stage, choice, full_refresh, dry_run, at)

    try:
        return staged(choice)
    except OutsideError as error:  # some rows turned out to be more than DuckDB may compute
        return staged(instead(choice, projection.name, error))


def _staged(
    lake: Lake,
    projection: Projection,
    stage: TableName,
    choice: EngineChoice,
    full_refresh: bool,
    dry_run: bool,
    at: str | None,
) -> Staged:
    table = lake.table(stage)
    attempts = 0
    while True:
        attempts += 1
        # Before the tables that it is made of: what another makes of newer states of these
        # meanwhile is a conflict then. After them it would be taken for what there was to begin
        # with, and be replaced by older rows.
        head = _present(lake, stage)
        large = head is not None and not choice.takes(reading(head))
        chosen = replace(choice, name=SPARK) if large else choice
        with opened_sql(chosen, lake, projection.name, projection.sql, at) as asked:
            job = _Job(lake, projection, asked, table, head, full_refresh, dry_run)
            try:
                return job.run()
            except ConflictError:
                if attempts == ATTEMPTS or not job.was_overtaken():
                    raise


def _present(lake: Lake, name: TableName) -> TableState | None:
    """The staging table; None where there is none, or none any more."""
    present = log.read_snapshot(lake.store, name)
    return None if present is None or present.dropped_at else present


class _Job:
    """One attempt, on the table as it is."""

    def __init__(
        self,
        lake: Lake,
        projection: Projection,
        asked: SqlAnswer[Any],
        table: Table,
        head: TableState | None,
        full_refresh: bool,
        dry_run: bool,
    ) -> None:
        self._lake = lake
        self._projection = projection
        self._asked = asked
        self._full = full_refresh
        self._dry_run = dry_run
        self._table = table
        self._head = head
        definition, uri = projection.definition, lake.store.uri
        self._position = Position(projection.name, definition, uri, asked.sources)

    def was_overtaken(self) -> bool:
        """Tell whether the table is not what it was when the attempt began."""
        before, now = self._head, _present(self._lake, self._table.name)
        return (before and before.number) != (now and now.number)

    def run(self) -> Staged:
        projection, asked = self._projection, self._asked
        if projection.incremental:
            asked.check_deterministic(f"the SQL of the projection {projection.name}")
        check_key_names(projection.key, asked.schema.names)
        entry = asked.table_schema(projection.key)
        if self._head is None:
            return self._create()
        last = refreshes.last_refresh(self._lake.store, self._head)
        if last is None:
            raise UsageError(
                f"{self._table.name} is a table that no projection created, and {projection.name} "
                "would replace all its rows: give the projection another stage, or the table "
                "another name"
            )
        columns = answer_changes(self._head, entry)
        if columns and projection.on_schema_change is OnSchemaChange.FAIL:
            raise UsageError(self._other_columns(columns))
        why = self._why_all(last, columns)
        if why is not None:
            return self._replace(self._head, last, entry, columns, why)
        if self._is_as_read(last):
            return self._staged(RefreshKind.UP_TO_DATE, "", Changed(None), ())
        rows = self._difference(last.position.sources, columns_of(entry))
        changed = self._change(self._head, last, rows, Mode.UPSERT)
        return self._staged(RefreshKind.INCREMENTAL, "", changed, ())

    def _staged(
        self, how: RefreshKind, why: str, changed: Changed, columns: Sequence[AnswerChange]
    ) -> Staged:
        return Staged(self._projection, how, why, changed, columns, self._position)

    def _other_columns(self, columns: Sequence[AnswerChange]) -> str:
        listed = "; ".join(map(str, columns))
        return (
            f"the rows of the projection {self._projection.name} have other columns than "
            f"{self._table.name}: {listed}; nothing was changed: change the SQL, or set "
            "on_schema_change: evolve"
        )

    def _is_as_read(self, last: Refresh) -> bool:
        """Tell whether each table reads as it did: the rows that are staged are those of today."""
        then, now = last.position.sources, self._asked.states
        if [one.table for one in then] != [str(one.table) for one in now]:
            return False
        return all(behind(one, other) is None for one, other in zip(then, now, strict=True))

    def _other_definition(self, last: Refresh) -> list[str]:
        """Describe how the projection's definition of its rows has changed."""
        changed = self._projection.changed_since(last.position.definition)
        return [one for one in changed if one in DECIDE_ROWS]

    def _says_something_new(self, last: Refresh) -> bool:
        """Tell whether a transaction is worth it for its metadata alone.

        Without one each refresh to come would look at the same transactions again.
        """
        touched = last.touched is not None
        return touched or bool(self._other_definition(last)) or not self._is_as_read(last)

    def _why_all(self, last: Refresh, columns: Sequence[AnswerChange]) -> str | None:
        """Explain, in a clause, why all rows are computed; None if those that changed will do."""
        table = self._table.name
        if self._full:
            return "it was requested"
        if last.touched is not None:
            return f"transaction {last.touched} of {table} was not a refresh"
        if changed := self._other_definition(last):
            return f"the definition changed: {', '.join(changed)}"
        if columns:
            return "the columns have changed: " + "; ".join(map(str, columns))
        if self._is_as_read(last):
            return None
        if not self._projection.incremental:
            return "the projection is not incremental"
        if not self._projection.key:
            return f"{table} has no key"
        if (why := self._asked.obstacle(last.position.sources)) is not None:
            return why
        if not self._asked.is_key(self._projection.key):
            return f"the key is not that of {self._asked.sources[0].table}"
        return None

    def _create(self) -> Staged:
        projection, said = self._projection, refreshes.metadata_of(self._position)
        if self.was_overtaken():
            raise conflicts.made_meanwhile(self._table.name)
        plans.new_name(str(self._table.name))
        del said["sources"]  # a creation says that itself
        options = ChangeOptions(metadata=said, dry_run=self._dry_run)
        with self._asked.computed() as answer:
            made = create_of(
                self._lake,
                self._table.name,
                projection.sql,
                answer,
                keys=projection.key,
                options=options,
            )
        changed = Changed(made.transaction, inserted=made.rows)
        return self._staged(RefreshKind.CREATED, "the table did not exist", changed, ())

    def _replace(
        self,
        head: TableState,
        last: Refresh,
        entry: SchemaEntry,
        columns: Sequence[AnswerChange],
        why: str,
    ) -> Staged:
        """Compute all rows and make the table's rows these; only the difference is written."""
        engine, columns_ = self._asked.engine, columns_of(entry)
        with (
            self._asked.computed() as answer,
            answer.plain_errors(),
            engine.keep(answer.rows(columns_)) as rows,
        ):
            with engine.stages("computing all rows", more=3):
                parts = engine.collect(engine.map(rows, counted, "rows long"))
                count = sum(part["rows"] for part in parts)
                self._check_key(rows, columns_, count)
            keyed, tasks = bool(entry.key_properties), 1 + count // PART_ROWS
            given = all_rows(rows, columns_, keyed=keyed, tasks=tasks)
            said = partial(evolved, entry=entry) if columns else None
            changed = self._change(head, last, given, Mode.REPLACE, said)
        return self._staged(RefreshKind.COMPARED, why, changed, columns)

    def _check_key(self, rows: Any, columns: Columns, count: int) -> None:
        key, engine = self._projection.key, self._asked.engine
        if not key:
            return
        names = [name for name, _ in columns]
        numbers = [names.index(name) for name in key]
        own = tuple(columns[number] for number in numbers)
        called = [alias(number) for number in numbers]
        if wrong := key_violations(engine, partial(engine.map, rows), own, called, count):
            raise ViolationsError.of_lines(
                f"{', '.join(key)} cannot be the key of {self._table.name}, and nothing was "
                f"changed: in the result of the SQL of the projection {self._projection.name}",
                *wrong.lines(),
                "leave these rows out in the SQL, or add columns that make it unique",
            )

    def _difference(self, since: Sequence[SourceState], columns: Columns) -> GivenRows:
        """The rows that may have changed, as an upsert has them: those that are gone are to go."""
        asked = self._asked
        # As published rows are, they are looked up in the table that holds them.
        fresh = asked.fresh(since) if {*self._projection.key} == {*asked.key} else None
        if fresh is not None:
            return new_rows(fresh, columns)
        return changed_rows(asked.changed(since), columns, self._projection.key)

    def _change(
        self,
        head: TableState,
        last: Refresh,
        rows: GivenRows,
        mode: Mode,
        said: OverlayChange | None = None,
    ) -> Changed:
        source = f"the projection {self._projection.name}"

        def parts(engine: Engine[Any], present: TableState) -> list[Part]:
            return [Part((rows.row_set(engine, present, source),), mode)]

        options = ChangeOptions(
            metadata=refreshes.metadata_of(self._position),
            if_transaction=head.number,
            dry_run=self._dry_run,
            said=said,
            always=self._says_something_new(last),
        )
        return change_rows(self._table, parts, options, lambda _: self._asked.engine, present_rows)
