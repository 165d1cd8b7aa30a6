"""Rows that a change is asked for, whatever they come from: on an engine, and before they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.log.table_state import TableState
from singerlake.ops.change.plan import Mode
from singerlake.rows.batches import packing
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks
from singerlake.rows.input.rows import LINE, ROW_ID, SOURCE, TYPES, given_schema

MANY_TASKS = 32
"""Tasks for rows that have not been counted."""
PACKED_ROWS = 65_536
"""Rows from this process's memory that one task is sent."""


@dataclass(frozen=True)
class RowSet:
    """Rows that a table is to have, or that are to go.

    A row names the cells that it sets and, if it was read from the table before, which row it was
    and in which version.

    Attributes:
        rows: The engine's rows that ``step`` reads.
        columns: The named columns, as indexes in the table's columns, rising.
        sources: What messages call the places that rows come from, such as a file's name.
        step: Gives batches of ``input.rows.given_schema``; None if ``rows`` are such batches. Rows
            that are the table's own have no line: messages name them by their ids.
        tasks: Into how many tasks the rows are split, about.
    """

    rows: Any
    columns: tuple[int, ...]
    sources: tuple[str, ...]
    step: Step | None = None
    tasks: int = 1


@dataclass(frozen=True)
class Part:
    """One step of a change.

    Attributes:
        row_sets: Rows that are one set: no row may be in them twice.
        mode: What is asked of them.
    """

    row_sets: tuple[RowSet, ...]
    mode: Mode


class GivenRows(ABC):
    """Rows as somebody gives them, for the table as it will be when they are read.

    Attributes:
        of_spark: What only Spark can read of them, in words; None if any engine can.
    """

    of_spark: str | None = None

    @property
    def work(self) -> Work:
        """The work of reading them."""
        return Work()

    @abstractmethod
    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Read them as rows of a table; called again if others changed the same rows meanwhile.

        Args:
            present: The table as it is.
            source: What messages call them.

        Raises:
            UsageError: They have columns that the table lacks, or cannot take.
            RejectedRowsError: A value does not fit its column.
        """


@dataclass
class RowIds(GivenRows):
    """Rows that are named by their ids alone.

    Attributes:
        ids: As ``query --row-metadata`` gives them.
    """

    ids: Sequence[str]

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Name them; see :meth:`GivenRows.row_set`."""
        del present
        count = len(self.ids)
        known = {
            SOURCE: pa.repeat(pa.scalar(0, TYPES[SOURCE]), count),
            LINE: pa.array(range(1, count + 1), TYPES[LINE]),
            ROW_ID: pa.array(self.ids, TYPES[ROW_ID]),
        }
        schema = given_schema((), ())
        columns = [known.get(field.name, pa.nulls(count, field.type)) for field in schema]
        return RowSet(sent(engine, pa.table(columns, schema=schema)), (), (source,), unpacked)


def sent(engine: Engine[Any], rows: pa.Table) -> Any:
    """Bring rows of this process's memory to an engine, for :func:`unpacked`."""
    starts = range(0, max(1, len(rows)), PACKED_ROWS)
    return engine.source([packing.pack(rows.slice(at, PACKED_ROWS)) for at in starts])


def unpacked(batches: Batches) -> Batches:
    """Give the rows that tasks were sent."""
    for _, data in block_tasks.given(batches):
        if data is not None:
            yield from packing.unpack(data).to_batches()
