"""What the streams of one run of the tap share: the output, the counts, the tables given up."""

from __future__ import annotations

import logging

from singerlake.errors import DamagedError, DataError
from singerlake.format.names import TableName
from singerlake.lineage import Told
from tap_singerlake.batches import BatchOptions
from tap_singerlake.output import BorderStateWriter, LineWriter, Output


class Run:
    """One run of the tap.

    Attributes:
        output: Where all lines go.
        writer: The SDK's message writer, on the same output.
        state_writer: The writer of all STATE lines.
        records: Records read.
        streams: Streams read whole.
        damaged: Tables that could not be read, and why.
        lineage: What the run is told of by.
        batches: How records are put into files; None where they go out as lines.
        all_streams: Whether all selected streams were asked for, so that a damaged one stops no
            other.
    """

    def __init__(self) -> None:
        self.output = Output()
        self.writer = LineWriter(self.output)
        self.state_writer = BorderStateWriter(self.writer)
        self.records = 0
        self.streams = 0
        self.damaged: dict[TableName, DataError] = {}
        self.all_streams = False
        self.lineage: Told | None = None
        self.batches: BatchOptions | None = None

    def give_up(self, table: TableName, error: DataError, logger: logging.Logger) -> None:
        """Leave a table at what is out of it; the others go on where all were asked for.

        Raises:
            DamagedError: Just this one was.
        """
        if not self.all_streams:
            raise error
        self.damaged[table] = error
        logger.error(
            "%s; skipping the rest of %s, and continuing with the other tables", error, table
        )

    def report_damage(self) -> None:
        """End with what was damaged, once all else is out.

        Raises:
            DamagedError: A table could not be read.
        """
        damaged, self.damaged = self.damaged, {}
        if len(damaged) == 1:
            raise next(iter(damaged.values()))
        if damaged:
            tables = ", ".join(map(str, damaged))
            errors = "; ".join(map(str, damaged.values()))
            raise DamagedError(f"{len(damaged)} tables cannot be read, {tables}: {errors}")
