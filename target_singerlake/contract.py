"""What becomes of a stream whose schema is not the one that its table has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from singerlake.errors import NotFoundError
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.lake import Lake
from target_singerlake.errors import InvalidSchemaError

if TYPE_CHECKING:
    from singerlake.log.schema_difference import SchemaChange

EVOLVE, WARN, FAIL = "evolve", "warn", "fail"


class Contract:
    """Holds the schemas of a run against those of the lake, where the settings ask for it.

    Args:
        lake: The lake.
        tap: Whose streams these are.
        patterns: What to do, by patterns of streams; the first that matches counts.
        logger: For warnings.
        watched: Whether to look at streams too of which any schema is taken.

    Attributes:
        changes: What was found, by stream.
    """

    def __init__(
        self,
        lake: Lake,
        tap: str,
        patterns: Mapping[str, str],
        logger: logging.Logger,
        *,
        watched: bool = False,
    ) -> None:
        self._lake = lake
        self._tap = tap
        self._patterns = patterns
        self._logger = logger
        self._watched = watched
        self._known: dict[str, SchemaEntry | None] = {}
        self.changes: dict[str, list[SchemaChange]] = {}

    def check(self, stream: str, entry: SchemaEntry) -> None:
        """Look at the schema of a stream, which may not be its first in this run.

        Raises:
            InvalidSchemaError: It is another than before, and must not be.
            DamagedError: The table's log cannot be read.
        """
        matching = (word for text, word in self._patterns.items() if fnmatchcase(stream, text))
        word = next(matching, EVOLVE)
        if word == EVOLVE and not self._watched:
            return
        if stream not in self._known:
            self._known[stream] = self._read(stream)
        from singerlake.ops.diff.contract import schema_changes  # late: few runs look

        before, self._known[stream] = self._known[stream], entry
        found = list(schema_changes(before, entry)) if before is not None else []
        if not found:
            return
        self.changes.setdefault(stream, []).extend(found)
        said = "; ".join(map(str, found))
        if word == FAIL:
            raise InvalidSchemaError(
                f"it differs from that of {self._tap}.{stream}, and schema_changes is {FAIL}: "
                f"{said}; correct the source, or accept it with {EVOLVE} or {WARN}"
            )
        if word == WARN:
            self._logger.warning("the schema of %s.%s has changed: %s", self._tap, stream, said)

    def _read(self, stream: str) -> SchemaEntry | None:
        """The schema that a stream's table has; None where there is none."""
        try:
            snapshot = self._lake.table(TableName(self._tap, stream)).snapshot()
        except NotFoundError:
            return None
        return snapshot.tap_schema if snapshot.schema_hash else None
