"""The content of a state: its fingerprints, and its type mismatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine, R, Schema
from singerlake.format.sql_tokens import absolutely_below
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, DIGEST, MISFITS, ORDINAL
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.misfits import FAIL, ColumnMisfits
from singerlake.rows.blocks.positions import each_code
from singerlake.rows.changes import declared_digits
from singerlake.rows.changes.declared_digits import DigitsStep
from singerlake.rows.state.fingerprint import FULL, SUMMED, Content, Proof, Summer, Sums
from singerlake.rows.state.misfit_steps import COUNTED, MisfitCheck, MisfitCounter, merged
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import from_blocks
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader

_COUNT = "rows long"


def state_content(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    proofs: tuple[Proof, ...] = FULL,
    misfits: str = FAIL,
) -> Content:
    """Count and fingerprint a state from its blocks alone, past any index.

    Args:
        misfits: What becomes of a value that does not fit. Only the fingerprint of the records
            tells one misfit from another that is read as null.

    Raises:
        DamagedError: A block cannot be read, or a value does not fit.
    """
    digests = Proof.RECORDS in proofs
    plan = from_blocks.planned(engine, table, snapshot, digests=digests, shown=True)
    shape = plan.shape
    summer: Step = Summer(shape.columns, proofs)
    if misfits == FAIL:
        check = MisfitCheck(table.name, shape.names, keyed=bool(shape.keys))
        summer = Pipeline((check, summer))
    return total(engine, from_blocks.through(engine, plan, summer, SUMMED), proofs)


def index_content(engine: Engine[Any], index: Index, proofs: tuple[Proof, ...] = FULL) -> Content:
    """Count and fingerprint what an index holds.

    Raises:
        IndexDamagedError: A file is not what was written.
    """
    columns = index.shape.columns
    with engine.stages("adding up fingerprints"):
        wanted = [*index.shape.aliases, DIGEST]
        sums = of_index(engine, index, wanted, Summer(columns, proofs), SUMMED)
        return total(engine, sums, proofs)


def state_misfits(engine: Engine[Any], table: Table, snapshot: TableState) -> list[ColumnMisfits]:
    """Find the values of a state that do not fit, from its blocks alone."""
    plan = from_blocks.planned(engine, table, snapshot, shown=True)
    counter = MisfitCounter.of(plan.shape)
    counts = engine.collect(from_blocks.through(engine, plan, counter, COUNTED))
    return merged(counts, plan.shape)


def index_misfits(engine: Engine[Any], index: Index) -> list[ColumnMisfits]:
    """Find the values in an index that do not fit."""
    if not index.misfits:
        return []
    shape = index.shape
    columns = list(dict.fromkeys((*shape.key_aliases, BLOCK, ORDINAL, MISFITS)))
    counts = of_index(engine, index, columns, MisfitCounter.of(shape), COUNTED)
    return merged(engine.collect(counts), shape)


def too_many_digits(
    engine: Engine[Any],
    read: Callable[[Step, Schema], Any],
    shape: Shape,
    bounds: Mapping[str, tuple[str, int]],
) -> list[Violation]:
    """Find decimals of more digits than their columns declare.

    Args:
        read: Gives the rows to a step.
        bounds: Columns, and the least whole number that has too many digits, by what is asked in
            words.
    """
    if not bounds:
        return []
    asked = {
        shape.names.index(column): (name, column, bound) for name, (column, bound) in bounds.items()
    }
    step = DigitsStep(shape, {index: bound for index, (*_, bound) in asked.items()})
    found = declared_digits.merged(engine.collect(read(step, declared_digits.FOUND)))
    return [
        Violation(asked[at][0], absolutely_below(*asked[at][1:]), rows, first, rows)
        for at, (rows, first) in found.items()
    ]


def most_rows(index: Index) -> int:
    """Return how many rows a state has at the most: those of its files."""
    files = [*index.marker.files, *(index.below.marker.files if index.below is not None else ())]
    return sum(file.rows for file in files)


def count_rows(engine: Engine[Any], index: Index) -> int:
    """Count the rows of a state; a layer has to be laid over what is below to know."""
    if index.marker.rows is not None:
        return index.marker.rows
    counts = of_index(engine, index, [BLOCK], counted, _COUNT)
    return sum(row["rows"] for row in engine.collect(counts))


def counted(batches: Batches) -> Batches:
    """Count the rows of a part."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(len(batch) for batch in batches)]})


def of_index(
    engine: Engine[R], index: Index, columns: Sequence[str], consumer: Step, schema: Schema
) -> R:
    """Give some columns of an index's rows to a step, file by file.

    Args:
        index: The index.
        columns: Those wanted, by what they are called inside.
        consumer: Called once for each file.
        schema: Of what it gives.
    """
    reader = StateReader.of(index)
    step = Pipeline((_FilesStep(reader, columns), consumer))
    return engine.map(engine.source([b""] * reader.parts), step, schema)


def places(engine: Engine[R], index: Index, step: Step, schema: Schema) -> R:
    """Give the positions of an index's rows to a step, as ``positions.each_code`` does."""
    both = Pipeline((each_code, step))
    return of_index(engine, index, (BLOCK, ORDINAL), both, schema)


@dataclass
class _FilesStep:
    """Reads the files whose numbers come in. Sent to executors by value."""

    reader: StateReader
    columns: Sequence[str]

    def __call__(self, numbers: Batches) -> Batches:
        """Give the rows that they have of the state."""
        for number in block_tasks.numbers(numbers):
            yield from self.reader.part(number, self.columns)


def total(engine: Engine[R], sums: R, proofs: tuple[Proof, ...]) -> Content:
    """Add up what parts have summed: a few kilobytes each, never rows."""
    found = Sums(proofs)
    for row in engine.collect(sums):
        found.add(row)
    return found.content()
