"""Options and outcomes of publishing projections, and their words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from singerlake.errors import SingerlakeError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.log import lake_log
from singerlake.quantities import count


@dataclass(frozen=True)
class PublishOptions:
    """The options of publishing projections.

    Attributes:
        full_refresh: Compute and write everything anew.
        dry_run: Only find out what would be done.
        at: Publish this version, by number or label, beside the rows of now.
        lake_version: Publish the version that it names of each projection's table, in the same
            way.
    """

    full_refresh: bool = False
    dry_run: bool = False
    at: str | None = None
    lake_version: LakeVersion | None = None

    @property
    def of_a_version(self) -> bool:
        """Whether versions that are named are published, and not the rows of now."""
        return self.at is not None or self.lake_version is not None

    def version_of(self, table: TableName) -> str | None:
        """Return the version of a table that is to be published; None where none is named.

        Raises:
            NotFoundError: The lake version does not have the table.
        """
        if self.lake_version is not None:
            return lake_log.version_of(self.lake_version, table)
        return self.at


class Result(str, Enum):
    """The result of a projection."""

    UP_TO_DATE = "up to date"
    DONE = "done"
    TO_DO = "to do"
    """It would have been done, but for a dry run."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Another one failed that it reads."""

    def __str__(self) -> str:
        return self.value


class RefreshKind(str, Enum):
    """The way in which a staging table was brought up to date."""

    UP_TO_DATE = "up to date"
    """It was: nothing was read."""
    CREATED = "created"
    INCREMENTAL = "incremental"
    """Only rows that changed were read."""
    COMPARED = "compared"
    """All rows were computed, and compared with those that there were."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class StagedRows:
    """The result of a refresh for a staging table, or of its dry run.

    Attributes:
        transaction: The refresh; None where it was only asked.
        how: ``created``, ``incremental``, or ``compared`` where all rows were computed.
        why: Why all rows were computed, as a clause.
        inserted: Rows that were not there.
        updated: Rows that are others now.
        columns: What became of the columns, in words.
    """

    table: str
    transaction: int | None
    how: str
    why: str
    inserted: int
    updated: int
    deleted: int
    columns: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """The number of rows that differ."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class PublishedRows:
    """The rows at a destination now.

    Attributes:
        full: Whether all files were written anew.
        why_full: Why they were, as a clause, where that is another reason.
        rows: Rows there; None where it was only asked.
        files: Files there; None likewise.
        written: Rows in new files. What a dry run says is what the run does; None where that is
            not known before something else is written: a staging table that changes, or the
            state of a version on the way to the rows of now.
        changed: Rows that differ from those that readers saw; None where all were written anew,
            or likewise.
        versions: The frozen versions that were published.
    """

    to: str
    format: str
    why: str
    full: bool
    why_full: str = ""
    rows: int | None = None
    files: int | None = None
    written: int | None = None
    changed: int | None = None
    versions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of publishing one projection.

    Attributes:
        projection: Its name.
        result: How it ended.
        staged: What was done to its staging table; None where it has none, or nothing was to do.
        published: What was done at its destination; None likewise.
        error: Why it failed.
        reason: Why it was skipped, or what it waits for in a dry run.
    """

    projection: str
    result: Result
    staged: StagedRows | None = None
    published: PublishedRows | None = None
    error: SingerlakeError | None = None
    reason: str = ""

    def words(self) -> list[str]:
        """Say it to a person, a line each."""
        reason = f": {self.reason}" if self.reason else ""
        if self.result in (Result.SKIPPED, Result.UP_TO_DATE, Result.FAILED):
            return [f"{self.projection}: {self.result}{reason}"]
        name = self.projection
        if self.result is Result.TO_DO:
            name += " (dry run)"
        told = [f"{name}{reason}"] if reason else []
        if self.staged is not None:
            told.append(f"{name}: {_staged(self.staged)}")
        if self.published is not None:
            told.append(f"{name}: {_published(self.published)}")
        return told


def _staged(staged: StagedRows) -> str:
    transaction = "" if staged.transaction is None else f", transaction {staged.transaction}"
    how = f"{staged.how}, because {staged.why}" if staged.why else staged.how
    rows = f"{staged.inserted:,} inserted, {staged.updated:,} updated, {staged.deleted:,} deleted"
    return f"{staged.table}{transaction} ({how}): {rows}"


def _how(published: PublishedRows) -> str:
    if published.written is None and not published.full:
        # Files hold other rows, too; how many lie in those that are written again is known then.
        changed = published.changed
        return "changed rows written" if changed is None else f"{count(changed, 'row')} changed"
    how = "rows" if published.written is None else count(published.written, "row")
    if not published.full:
        return f"{how} written"
    why = f" because {published.why_full}" if published.why_full else ""
    return f"all {how} written{why}"


def _published(published: PublishedRows) -> str:
    how = _how(published)
    parts = [f"{published.why}: {how}"] if published.why else []
    if published.versions:
        parts.append(", ".join(f"v{number}" for number in published.versions))
    if published.rows is not None and published.files is not None:
        there = f"{count(published.rows, 'row')} in {count(published.files, 'file')}"
        parts.append(f"{there} ({published.format})")
    return "; ".join(parts)
