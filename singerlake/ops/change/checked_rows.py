"""The rows that a change begins with, where DuckDB or Spark has to check the outcome."""

from __future__ import annotations

from singerlake.engine.local import LocalEngine
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.outcome_checks import check_outcome
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.freeze import violations_error
from singerlake.rows.batches.row_columns import PROVENANCE, row_schema
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_reader import combined
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import local_rows, planned, through
from singerlake.snapshot.state_reader import StateReader


class CheckedRows(PresentRows):
    """The rows that there are, in this process; arguments are those of :class:`PresentRows`.

    What DuckDB cannot check as Spark does raises an ``OutsideError``.
    """

    def check_outcome(self, found: Delta) -> None:
        """Refuse rows that break constraints; see :meth:`PresentRows.check_outcome`."""
        super().check_outcome(found)
        from singerlake.ops.change.rows_after import LocalChecks  # late: few tables need it

        checks = LocalChecks(self._here, found, self._rows, self.wanted.state, self.shape)
        check_outcome(checks, found, self.wanted, self.shape)

    def check_version(self, after: TableState) -> None:
        """Refuse to freeze such rows; see :meth:`PresentRows.check_version`."""
        if not (constraints := after.overlay.constraints):
            return
        from singerlake.sql.local.constraints import ConstraintChecks

        checks = ConstraintChecks(self.shape, constraints)
        if broken := checks.violations(lambda _: local_rows(self.table, after)):
            raise violations_error(after, broken)

    @property
    def _here(self) -> LocalEngine:
        if not isinstance(self.engine, LocalEngine):
            raise TypeError("Spark has checks of its own")
        return self.engine

    def _rows(self) -> Batches:
        """Give the rows, with provenance; a value that does not fit is null."""
        engine, table, state = self._here, self.table, self.wanted.state
        if self._all_go:
            return iter(())
        if self.wanted.overlay is None:
            index = building.ensure(engine, table, state)
            return StateReader.proven(index).rows([*self.shape.aliases, *PROVENANCE])
        # An index is filed by what the log says of columns, and the log does not say this yet.
        schema = row_schema(self.shape.columns, PROVENANCE)
        if not self.new_key:
            return engine.batches(through(engine, planned(engine, table, state), combined, schema))
        return engine.batches(self.read(self.shape.columns, combined, schema))
