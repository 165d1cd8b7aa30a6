"""Alterations that look at rows: at the values of a new type, at the keys, or in SQL."""

from __future__ import annotations

from functools import partial
from typing import Any

from singerlake.engine.base import Engine, Schema
from singerlake.engine.choice import EngineChoice
from singerlake.errors import ViolationsError
from singerlake.format.overlaid import member_of
from singerlake.lake import Table
from singerlake.ops.alter.constraint_checks import broken
from singerlake.ops.rows_back.difference import every_row
from singerlake.ops.rows_back.lines_again import Written
from singerlake.ops.rows_back.revert import whole_lines
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.overlay import alter as plans
from singerlake.overlay.alter import Altered, AlterOptions, AlterPlan, OverlayChange, Rewritten
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Step
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building, content, from_blocks
from singerlake.snapshot.index import Index
from singerlake.snapshot.key_violations import KeyViolations, folds_alike, key_violations


def alter_by_rows(
    table: Table,
    wanted: AlterPlan,
    engine: Engine[Any],
    change: OverlayChange,
    options: AlterOptions,
    choice: EngineChoice,
) -> Altered:
    """Look at the rows, and commit.

    Args:
        choice: The engines that may check constraints.

    Raises:
        ViolationsError: Rows are not what they would have to be; nothing was changed.
        ConflictError: Another process changed the table meanwhile; nothing was changed.
        DamagedError: A row that is needed cannot be read.
    """
    return _Job(table, wanted, engine, change, options, choice).run()


class _Job:
    """One alteration; arguments are those of :func:`alter_by_rows`."""

    def __init__(
        self,
        table: Table,
        wanted: AlterPlan,
        engine: Engine[Any],
        change: OverlayChange,
        options: AlterOptions,
        choice: EngineChoice,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._engine = engine
        self._change = change
        self._options = options
        self._choice = choice

    def run(self) -> Altered:
        """Look at the rows, and commit."""
        wanted = self._wanted
        if not self._options.allow_type_mismatches:
            self._check_values()
        self._check_constraints()
        if wanted.same_key:
            return self._commit(None)
        now = building.ensure(self._engine, self._table, wanted.head, shown=True)
        self._check_key(now)
        places = partial(content.places, self._engine, now)
        if folds_alike(self._engine, self._table, wanted.after, places):
            return self._commit(None)
        return self._rewrite(now)

    def _check_values(self) -> None:
        """Refuse a type that values of the column do not fit which fit before."""
        wanted = self._wanted
        if not (names := wanted.retyped):
            return
        found = content.state_misfits(self._engine, self._table, wanted.after)
        bad = [one for one in found if one.column in names]
        if bad:
            raise ViolationsError.of_lines(
                f"{wanted.head.table} has values that do not fit their new type, and nothing was "
                "altered:",
                *(line for one in bad for line in one.lines()),
                "give the column a type that fits all of them, or use --allow-type-mismatches: "
                "they stay as they are, and queries that read them fail",
            )

    def _check_constraints(self) -> None:
        """Refuse what rows do not keep, as they will be read."""
        wanted, engine, found = self._wanted, self._engine, list[Violation]()
        if wanted.asks_sql:
            found += broken(self._choice, engine, self._table, wanted)
        if not self._options.allow_type_mismatches:
            shape = shape_of(wanted.after)
            found += content.too_many_digits(engine, self._as_after, shape, wanted.digits)
        if found:
            raise ViolationsError.of_lines(
                f"rows of {wanted.head.table} violate the constraint, and nothing was altered:",
                *(line for one in found for line in one.lines()),
                "correct these rows first, or relax the constraint",
            )

    def _as_after(self, step: Step, schema: Schema) -> Any:
        """Give the rows to a step, as they will be read."""
        plan = from_blocks.planned(self._engine, self._table, self._wanted.after, shown=True)
        return from_blocks.through(self._engine, plan, step, schema)

    def _check_key(self, now: Index) -> None:
        """Refuse a key that the rows cannot have."""
        wanted = self._wanted
        names = wanted.after.schema.key_properties
        head = (
            f"{wanted.head.table} cannot have the key {', '.join(names)}, and nothing was altered:"
        )
        if wanted.after.rounds_keys:  # then rows with another key each may look alike
            misfits = content.state_misfits(self._engine, self._table, wanted.after)
            if bad := [one for one in misfits if one.column in names]:
                raise ViolationsError.of_lines(
                    head,
                    *(line for one in bad for line in one.lines()),
                    "give these columns a type that holds every key first, for example "
                    "'decimal(38,0)' or text",
                )
        if found := self._key_violations(now, names):
            raise ViolationsError.of_lines(
                head,
                *found.lines(),
                "correct these rows first, or add columns that make it unique",
            )

    def _key_violations(self, now: Index, names: list[str]) -> KeyViolations:
        engine, wanted = self._engine, self._wanted
        own = {member_of(wanted.head.overlay, n): at for at, n in enumerate(now.shape.names)}
        at = [own[member_of(wanted.overlay, name)] for name in names]
        called = [alias(index) for index in at]
        columns = tuple((n, now.shape.columns[i][1]) for n, i in zip(names, at, strict=True))

        def read(step: Step, schema: Schema) -> Any:
            return content.of_index(engine, now, [*dict.fromkeys(called)], step, schema)

        return key_violations(engine, read, columns, called, content.most_rows(now))

    def _rewrite(self, now: Index) -> Altered:
        wanted, options, engine = self._wanted, self._options, self._engine
        if options.dry_run:
            return Altered(wanted.words, None, content.count_rows(engine, now))
        lines = whole_lines(self._table, RevertPlan(wanted.head, wanted.head))
        made: list[Altered] = []

        def committed(written: Written) -> None:
            rewritten = Rewritten(written.blocks, lines.schemas, written.writer_id, written.check)
            made.append(self._commit(rewritten))

        lines.commit(every_row(engine, now), options.writing, committed, whole=True)
        return made[0]

    def _commit(self, rewritten: Rewritten | None) -> Altered:
        wanted, options = self._wanted, self._options
        if options.dry_run:
            return Altered(wanted.words)
        done = plans.commit_alter(
            self._table.store, wanted, self._change, options, by_rows=True, rewritten=rewritten
        )
        rows = None if rewritten is None else sum(block.rows for block in rewritten.blocks)
        return Altered(wanted.words, done.number, rows)
