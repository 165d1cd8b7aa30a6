"""Work at a destination: files and commits; or in a dry run neither, but it counts.

A run and a dry run go the same way, and differ here alone. So what the one counts the other writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from singerlake.ops.publish.answer import Answer
from singerlake.ops.publish.publish_changes import planned_increment
from singerlake.ops.publish.write.increments import Increment, Publication
from singerlake.ops.publish.write.ordered_files import write_ordered
from singerlake.publish.destinations.base import Destination
from singerlake.publish.projection import Projection
from singerlake.publish.published import Commit, DataFile, Published


class Run:
    """Writes files and commits them.

    Attributes:
        written: Rows in new files; None where it cannot be told.
        changed: Rows that differ from those that readers saw; None where that is not known.
    """

    def __init__(self, projection: Projection, destination: Destination) -> None:
        self._projection = projection
        self._destination = destination
        self.written: int | None = 0
        self.changed: int | None = 0

    def file_schema(self, schema: pa.Schema, base: Published | None) -> pa.Schema:
        """Give the columns of the files, see ``Destination.file_schema``."""
        return self._destination.file_schema(schema, base)

    def all_rows(self, asked: Answer[Any], schema: pa.Schema) -> Sequence[DataFile]:
        """Write all rows into new files, which nobody sees yet."""
        files = write_ordered(asked.source(), self._projection, self._destination, schema)
        self._wrote(sum(file.rows for file in files))
        return files

    def increment(self, asked: Answer[Any], base: Published, schema: pa.Schema) -> Increment:
        """Write what changed into new files, which nobody sees yet."""
        publication = Publication(self._projection, self._destination, base, schema)
        with planned_increment(asked, publication) as planned:
            found = planned.write()
        if not found.full_build:
            self._wrote(sum(file.rows for file in found.added), found.changed)
        return found

    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Have readers see it."""
        return self._destination.commit(base, commit)

    def sweep(self) -> None:
        """Delete what no reader needs."""
        self._destination.sweep(self._projection.keep)

    def _wrote(self, rows: int, changed: int | None = 0) -> None:
        if self.written is not None:
            self.written += rows
        if self.changed is not None and changed is not None:
            self.changed += changed


class DryRun(Run):
    """Counts what a run would write.

    What a commit leaves is made up, for what comes next: its files are not there. So how many rows
    an increment on top of it would write, nobody can tell.
    """

    _made_up = False
    _there: Published | None = None

    def file_schema(self, schema: pa.Schema, base: Published | None) -> pa.Schema:
        """Give the columns that files would have beside those that are there."""
        if not self._made_up:
            self._there = base
        return super().file_schema(schema, self._there)

    def all_rows(self, asked: Answer[Any], schema: pa.Schema) -> Sequence[DataFile]:
        """Count all rows."""
        del schema
        rows = asked.count()
        self._wrote(rows)
        return _file(rows)

    def increment(self, asked: Answer[Any], base: Published, schema: pa.Schema) -> Increment:
        """Count the rows that changed, and those of the files that hold them."""
        if self._made_up:
            self.written = self.changed = None
            return Increment(added=_file(base.rows), removed=base.files)
        publication = Publication(self._projection, self._destination, base, schema)
        with planned_increment(asked, publication) as planned:
            made, changed = planned.made, planned.counted.changed
            if made is None:
                return planned.write()  # there is nothing to write
            self._wrote(planned.written, changed)
            every = base.files
            return Increment(
                kept=[one for at, one in enumerate(every) if at not in made.touched],
                added=_file(planned.written),
                removed=[every[at] for at in sorted(made.touched)],
                changed=changed,
            )

    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Tell what readers would see."""
        if commit.version is not None:
            assert base is not None  # noqa: S101  # versions lie beside what readers see
            return replace(base, versions={**base.versions, commit.version: ""})
        self._made_up = self._made_up or bool(commit.added or commit.removed)
        made = Published(commit.position, commit.schema, [*commit.kept, *commit.added])
        return made if base is None else replace(made, token=base.token, versions=base.versions)

    def sweep(self) -> None:
        """Delete nothing."""


def _file(rows: int) -> list[DataFile]:
    """A file that is not there, with so many rows."""
    return [DataFile("", 0, rows)]
