"""What an increment of published files comes to: files that stay, new ones, and those replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.ops.publish.write.files_reader import FilesReader
from singerlake.ops.publish.write.published_files import bounded_column
from singerlake.publish.destinations.base import Destination
from singerlake.publish.files import file_format
from singerlake.publish.overlap import overlap
from singerlake.publish.projection import Projection, Target
from singerlake.publish.published import DataFile, Published
from singerlake.publish.ranges import SMALL, Places, Plan

FILES = 64
"""Files that a table is cut into, at least, before those of an increment become larger."""
LEAST_BYTES = 4 << 20
"""Bytes of a file that is not too small for readers."""


@dataclass(frozen=True)
class Increment:
    """New files for a commit; no reader sees them before it.

    Attributes:
        kept: Files that stay.
        added: New ones.
        removed: Those that they stand for.
        changed: How many rows were added, changed or removed.
        overlap: The share of rows in files whose ranges overlap, once it is committed.
        resorted: Whether ranges were sorted anew, because too many had come to overlap.
        full_build: Why these changes can only be published by a full build, as a clause; empty
            where they could, and then all else says nothing.
    """

    kept: Sequence[DataFile] = ()
    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    changed: int = 0
    overlap: float = 0.0
    resorted: bool = False
    full_build: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.added or self.removed or self.full_build)


@dataclass(frozen=True)
class Counted:
    """How many rows an increment is of.

    Attributes:
        gone: Rows as they were that are gone, or are others now.
        come: Rows as they are that are new, or were others.
        changed: How many rows differ; one that was and is counts once.
    """

    gone: int
    come: int
    changed: int


@dataclass(frozen=True)
class Publication:
    """A projection at its destination, as an increment finds it.

    Attributes:
        projection: Says order, partitions and size of the files; it is the one that ``base`` is of.
        destination: Where they go.
        base: What it shows.
        schema: The columns of the files, see ``Destination.file_schema``.
    """

    projection: Projection
    destination: Destination
    base: Published
    schema: pa.Schema

    @property
    def target(self) -> Target:
        """How it is published.

        Raises:
            UsageError: It is only staged.
        """
        if self.projection.target is None:
            raise UsageError(f"{self.projection.name} is only staged: it has no `to`")
        return self.projection.target

    @property
    def has_columns_of_base(self) -> bool:
        """Whether the files that are there have the columns that new ones have."""
        there = self.base.schema.remove_metadata()
        return bool(self.schema.remove_metadata().equals(there))

    @property
    def piece_bytes(self) -> int:
        """The bytes of a file that an increment writes: less than a full build's."""
        share = max(LEAST_BYTES, sum(file.bytes for file in self.base.files) // FILES)
        return max(1, min(self.target.file_bytes // SMALL, share))

    @property
    def in_pieces(self) -> Projection:
        """The projection with smaller files: where rows change, the next rows will change, too."""
        smaller = replace(self.target, file_bytes=self.piece_bytes)
        return replace(self.projection, target=smaller)

    @cached_property
    def bounded(self) -> str | None:
        """The column whose bounds the files have."""
        return bounded_column(self.projection, self.schema)

    @cached_property
    def places(self) -> Places:
        """Which rows lie in which file."""
        return Places(self.base.files, self.projection.partition_by, self.bounded)

    def reader(self, files: Sequence[DataFile], wanted: pa.Schema) -> FilesReader:
        """Return what reads files back.

        Args:
            files: Which.
            wanted: The columns of rows.
        """
        form, by = file_format(self.target.format), self.projection.partition_by
        return FilesReader(self.destination.store, form, files, by, wanted, self.schema)


@dataclass(frozen=True)
class Planned:
    """An increment of which it is known what will be written, and nothing is.

    Attributes:
        publication: What it is for.
        counted: How many rows it is of.
        made: Which files are written again; None where none has to be, or it cannot be done.
        files: Writes the new files.
        full_build: Why it can only be published by a full build, as a clause; empty where it can.
    """

    publication: Publication
    counted: Counted = Counted(0, 0, 0)
    made: Plan | None = None
    files: Callable[[], Sequence[DataFile]] = tuple
    full_build: str = ""

    @property
    def written(self) -> int:
        """How many rows the new files will have."""
        if self.made is None:
            return 0
        there = self.publication.base.files
        again = sum(there[index].rows for index in self.made.touched)
        return again - self.counted.gone + self.counted.come

    def write(self) -> Increment:
        """Write the new files.

        Raises:
            DamagedError: A file cannot be read back.
        """
        base = self.publication.base
        if self.full_build:
            return Increment(full_build=self.full_build)
        if self.made is None:
            return Increment(kept=base.files, overlap=overlap(base.files))
        return _increment(base, self.made, self.files(), self.counted)


def _increment(
    base: Published, made: Plan, files: Sequence[DataFile], counted: Counted
) -> Increment:
    every = base.files
    kept = [one for index, one in enumerate(every) if index not in made.touched]
    added = [one for one in files if one.rows] if kept else files
    rows = sum(one.rows for one in kept) + sum(one.rows for one in added)
    if rows != base.rows - counted.gone + counted.come:
        # Whatever the reason: nobody is to find a row twice, or not at all.
        return Increment(full_build="the published files do not contain the expected rows")
    return Increment(
        kept=kept,
        added=added,
        removed=[every[index] for index in sorted(made.touched)],
        changed=counted.changed,
        overlap=overlap([*kept, *added]),
        resorted=made.resorted,
    )
