"""The version of what a change leaves: worked out before the change is committed, with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from singerlake.engine.base import Engine
from singerlake.errors import DataError
from singerlake.format.log import Entry, FrozenVersion
from singerlake.lake import Table
from singerlake.log.commit import current_user, preview
from singerlake.log.table_state import TableState
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.freeze import misfits_error
from singerlake.ops.requirements.annotated import refuse_with_change
from singerlake.rows.state.fingerprint import Content
from singerlake.snapshot.content import state_content, state_misfits


class Freezing:
    """Freezes what a change leaves. Called for each state that it may be committed on.

    Args:
        check: Refuses rows that do not keep the table's constraints.

    Raises:
        UsageError: The table has requirements.
    """

    def __init__(
        self,
        engine: Engine[Any],
        table: Table,
        options: ChangeOptions,
        check: Callable[[TableState], None] = lambda _: None,
    ) -> None:
        refuse_with_change(table.store, table.name)
        self._engine = engine
        self._table = table
        self._options = options
        self._check = check
        self._known: tuple[tuple[int, int], Content] | None = None

    def __call__(
        self, present: TableState, draft: Entry
    ) -> tuple[FrozenVersion, Mapping[str, str]]:
        """Make the version that follows a snapshot, and its lanes.

        Raises:
            MisfitsError: A value of the state does not fit its column.
            ViolationsError: Its rows do not keep the table's constraints.
        """
        after = preview(present, draft)
        state = (present.last_block, after.last_block)
        if self._known is None or self._known[0] != state:
            self._known = state, self._content(after)
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

    def _content(self, after: TableState) -> Content:
        try:
            with self._engine.stages("adding up fingerprints"):
                found = state_content(self._engine, self._table, after)
        except DataError:  # of which value, nobody knows before all are looked at
            if misfits := state_misfits(self._engine, self._table, after):
                raise misfits_error(after, misfits) from None
            raise
        self._check(after)
        return found
