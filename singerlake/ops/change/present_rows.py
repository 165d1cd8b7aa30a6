"""The rows that a change begins with: those that there are, as they will be read.

Rows that a change may mean go on as packed Arrow tables. An index is read by row groups if its
files are on this machine, and a row group without a row that is asked for is left after its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.engine.base import Engine, Schema
from singerlake.lake import Table
from singerlake.log.snapshot import Snapshot
from singerlake.ops.change.asked_rows import Asked
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.changes.asked_rows import SHARED
from singerlake.rows.changes.present_rows import IndexScan, PresentStep
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import building
from singerlake.snapshot import index as indexes
from singerlake.snapshot.from_blocks import planned, through
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader


class PresentRows:
    """The rows that there are.

    Args:
        engine: Reads them.
        table: The table.
        wanted: The plan.
        shape: The table's, as it is read after the change.

    Attributes:
        written_again: Whether all rows must be, lest others come back under a new key.
    """

    written_again = False

    def __init__(self, engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape) -> None:
        self.engine = engine
        self.table = table
        self.wanted = wanted
        self.shape = shape

    def meant(self, asked: Asked) -> list[Any]:
        """Share out the rows that may be meant, as ``asked_rows.SHARED`` has them.

        Args:
            asked: What is asked; its rows have been read.
        """
        step = self._present_step(asked)
        engine, table, state = self.engine, self.table, self.wanted.state
        # An index is filed by what the log says of columns, and the log may not say this yet.
        index = None if self.wanted.overlay is not None else _index(engine, table, state)
        if index is None:
            plan = planned(engine, table, state)
            return [through(engine, plan, step, SHARED, asked=step.asked)]
        both = [index] if index.below is None else [index.below, index]
        return [
            _of_index(engine, one, replace(step, layer=one.below is not None))
            for one in both
            if one.parts
        ]

    def _present_step(self, asked: Asked) -> PresentStep:
        spec = asked.spec
        return PresentStep(
            columns=spec.columns,
            keys=spec.keys,
            cells=tuple(spec.set_columns),
            asked=None if asked.replaces else asked.seen.keys,
            parts=asked.parts,
        )

    def places(self, step: Step, schema: Schema) -> Any:
        """Give the positions of all rows, as ``positions.codes`` has them, to a step.

        Args:
            step: Takes batches of one column ``codes``.
            schema: Of what it gives.
        """
        engine, table, state = self.engine, self.table, self.wanted.state
        if self.wanted.overlay is not None:
            return through(engine, planned(engine, table, state), _then(step), schema)
        reader = StateReader.of(building.ensure(engine, table, state))
        read = Pipeline((_PlacesOfIndex(reader), _then(step)))
        return engine.map(engine.source([b""] * reader.parts), read, schema)

    def check_key(self, *, replaced: bool) -> None:
        """Refuse a new key that the rows cannot have; without one there is nothing to check.

        Args:
            replaced: Whether others take their place.

        Raises:
            ViolationsError: Rows lack a value of it, or have the same.
        """

    def check_outcome(self, found: Delta) -> None:
        """Refuse rows that break what SQL has to check, of which there is nothing here.

        Args:
            found: What changes.

        Raises:
            SingerlakeError: They do.
        """

    def check_version(self, after: Snapshot) -> None:
        """Refuse to freeze rows that break a constraint, of which there is none here.

        Args:
            after: The table after the change.

        Raises:
            ViolationsError: They do.
        """


def _then(step: Step) -> Step:
    return Pipeline((codes_of, step))


def codes_of(batches: Batches) -> Batches:
    """Give the positions of rows."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array(positions.codes_in(batch))], ["codes"])


@dataclass
class _PlacesOfIndex:
    """Reads where the rows of an index lie, file by file.

    Attributes:
        reader: Reads the files.
    """

    reader: StateReader

    def __call__(self, numbers: Batches) -> Batches:
        """Read the files whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            yield from self.reader.part(number, (BLOCK, ORDINAL))


def _index(engine: Engine[Any], table: Table, state: Snapshot) -> Index | None:
    """The index to read, which may have to be made; None if a look at all keys costs less.

    That is so in a small table, and in one that had no index so far. Where one change follows
    another, an index is made all the same: the changes after it cost what they change.
    """
    if (index := indexes.sound(table, state.earliest_equal())) is not None:
        return index.with_keys()
    if state.key:
        rows = sum(block.rows for block in state.blocks)
        alone = state.summary(state.number).operation != "change"
        if rows < building.LEAST_ROWS or (alone and building.layered_on(table, state) is None):
            return None
    return building.ensure(engine, table, state)


def _of_index(engine: Engine[Any], index: Index, step: PresentStep) -> Any:
    """The rows of an index's own files."""
    paths = [index.table.store.local_path(part.key) for part in index.parts]
    if not engine.here or None in paths:
        read = Pipeline((index.reader(), step))
        return engine.map(engine.source([b""] * len(paths)), read, SHARED)
    groups = [
        (str(path), group)
        for path in paths
        for group in range(pq.read_metadata(str(path)).num_row_groups)
    ]
    tasks = _shared_out(groups, engine.parts)
    scan = IndexScan(tasks, [*index.shape.aliases, *index.own_columns], step)
    return engine.map(engine.source([b""] * len(tasks)), scan, SHARED)


def _shared_out(groups: Sequence[tuple[str, int]], most: int) -> list[Sequence[tuple[str, int]]]:
    """Share row groups out to tasks, neighbours to the same one."""
    share = -(-len(groups) // most)
    return [groups[start : start + share] for start in range(0, len(groups), share)]
