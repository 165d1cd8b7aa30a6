"""What an increment of published files comes to: files that stay, new ones, and those replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from singerlake.projections.overlap import overlap
from singerlake.projections.projection import Projection, Target
from singerlake.projections.published import DataFile, Published
from singerlake.projections.ranges import SMALL, Plan

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


def in_pieces(projection: Projection, base: Published) -> Projection:
    """Return the projection with smaller files: where rows change, the next rows will change, too.

    Args:
        projection: What is published; it has a target.
        base: What the destination shows.
    """
    target = projection.target
    assert target is not None  # noqa: S101  # who calls has looked
    return replace(projection, target=replace(target, file_bytes=piece_bytes(target, base)))


def piece_bytes(target: Target, base: Published) -> int:
    """Return the bytes of a file that an increment writes: less than a full build's.

    Args:
        target: Says how large files are wished.
        base: What the destination shows.
    """
    share = max(LEAST_BYTES, sum(file.bytes for file in base.files) // FILES)
    return max(1, min(target.file_bytes // SMALL, share))


def increment_of(
    base: Published, made: Plan, files: Sequence[DataFile], counted: Counted
) -> Increment:
    """Put together what is to be committed.

    Args:
        base: What the destination shows.
        made: Which of its files were written again.
        files: What was written.
        counted: How many rows differ.
    """
    every = base.files
    kept = [one for index, one in enumerate(every) if index not in made.touched]
    added = [one for one in files if one.rows] if kept else files
    rows = sum(one.rows for one in kept) + sum(one.rows for one in added)
    if rows != base.rows - counted.gone + counted.come:
        # Whatever the reason: nobody is to find a row twice, or not at all.
        return Increment(full_build="the published files hold other rows than they should")
    return Increment(
        kept=kept,
        added=added,
        removed=[every[index] for index in sorted(made.touched)],
        changed=counted.changed,
        overlap=overlap([*kept, *added]),
        resorted=made.resorted,
    )
