"""The few things that an operation asks of whatever runs its steps.

A step takes and gives Arrow batches, and knows nothing of what runs it. It is sent to where the
rows are, so what all of its calls need (a store, a few keys) is a member of the step: that is how
a small input is broadcast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from singerlake.rows.batches.steps import Step
from singerlake.rows.blocks.block_tasks import SENT

SOURCE = pa.schema({"id": pa.int64(), SENT: pa.binary()})
"""What :meth:`Engine.source` gives."""
Schema: TypeAlias = "str | pa.Schema"
R = TypeVar("R")
"""An engine's rows: in parts, and not computed before they are collected."""


class Engine(ABC, Generic[R]):
    """Runs steps over rows.

    Attributes:
        parts: Into how many parts to share work out, where there is enough of it.
        here: Whether all steps run on this machine, and so find its files.
    """

    parts: int
    here: bool

    @abstractmethod
    def source(self, tasks: Sequence[bytes]) -> R:
        """Make a part of each task: one row with its number, ``id``, and its bytes, ``blocks``.

        The rows must go through :meth:`map` before anything else is done with them.

        Args:
            tasks: What each task has to know, encoded.
        """

    @abstractmethod
    def map(self, rows: R, step: Step, schema: Schema) -> R:
        """Call a step with each part.

        Args:
            rows: The parts.
            step: Called once for a part; an empty part may be left out.
            schema: Columns and types of what the step gives, as Arrow's or in Spark's DDL.
        """

    @abstractmethod
    def union(self, *rows: R) -> R:
        """Put the parts of several rows of the same columns side by side."""

    @abstractmethod
    def exchange(self, rows: R, parts: int, by: str, tasks: Sequence[bytes] | None = None) -> R:
        """Send each row to a part, all rows of one number to the same.

        Args:
            rows: Have the number of their part, from 0, in a column; numbers beyond the last part
                begin again at the first.
            parts: How many parts there are to be.
            by: The name of that column, an int32.
            tasks: What each part has to know, encoded. It comes in as a row of its own, in a
                column ``blocks``, which is null in all other rows, as are all other columns but
                ``by`` in this one. A part without rows need not get it. The rows must go
                through :meth:`map` then.
        """

    @abstractmethod
    def having(self, rows: R, column: str) -> R:
        """Return the rows that have a value in a column.

        Args:
            rows: They must have gone through :meth:`map`.
            column: Its name.
        """

    @abstractmethod
    def keep(self, rows: R) -> AbstractContextManager[R]:
        """Compute rows once, when they are first asked for, however often that is in a context.

        Args:
            rows: They must have gone through :meth:`map`.
        """

    @abstractmethod
    def collect(self, rows: R) -> list[dict[str, Any]]:
        """Compute rows, and bring them here: a few for each part.

        Raises:
            SingerlakeError: What a step raised.
        """

    def stages(self, *words: str, more: int = 0) -> AbstractContextManager[None]:  # noqa: ARG002
        """Name what is computed within, for a progress bar.

        Args:
            words: What each stage does; an exchange begins another.
            more: How many stages the same operation has after these.
        """
        return nullcontext()

    def followed_by(self, count: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Announce that the operation has so many stages after those that are named within."""
        return nullcontext()


def task_row(schema: pa.Schema, by: str, number: int, task: bytes) -> pa.RecordBatch:
    """Make the row in which a part is told its task, beside rows of some columns."""
    own = {by: pa.array([number], pa.int32()), SENT: pa.array([task])}
    names = [*schema.names, SENT]
    nothing = {field.name: pa.nulls(1, field.type) for field in schema if field.name != by}
    return pa.RecordBatch.from_pydict({name: {**nothing, **own}[name] for name in names})
