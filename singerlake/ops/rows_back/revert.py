"""Results of a revert, and the problems that its rows may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from singerlake.lake import Table
from singerlake.ops.rows_back.lines_again import LinesAgain
from singerlake.ops.rows_back.revert_plan import RevertPlan


@dataclass(frozen=True)
class Outcome:
    """The problems of rows that come back all the same.

    Attributes:
        violations: The names of the constraints of now that they do not keep.
        misfits: The columns with values that do not fit their type of now.
    """

    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reverted:
    """The result of a revert, or of its dry run.

    Attributes:
        to: The transaction that was gone back to.
        transaction: The transaction it made; None where it made none.
        put_back: Rows written as they were.
        deleted: Rows that had come since and are gone again; None where all rows were written
            anew, in place of whatever there was.
        unchanged: Rows that were as they should be. A keyless table is written whole and
            has none.
        schema_hash: The schema in effect.
        whole: Whether all rows of the old state were written anew, behind ACTIVATE_VERSION.
        violations: The names of the constraints that its rows do not keep.
        misfits: The columns with values that do not fit the type they have by now.
    """

    to: int
    transaction: int | None
    put_back: int
    deleted: int | None
    unchanged: int
    schema_hash: str
    whole: bool = False
    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


def whole_lines(table: Table, wanted: RevertPlan) -> LinesAgain:
    """Return what writes all rows of the old state again."""
    return LinesAgain.of(
        table,
        wanted.head,
        wanted.to.schema_hash,
        deleted_under=(),
        put_back_under={block.schema_hash for block in wanted.to.blocks},
    )
