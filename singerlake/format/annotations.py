"""Annotations of a lake, its taps, tables and columns, in ``raw/singerlake.json``."""

from __future__ import annotations

import msgspec


class ColumnEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The annotations of a column, or of a property inside one.

    Attributes:
        owner: Who answers for it: a person or a team.
        description: What it holds.
        documentation: Where more is written: a URL.
        tags: Words to find it by.
        classification: How closely it is to be kept, for example ``confidential``.
        deprecated: Why it should not be used any more, and what to use instead.
        columns: The properties inside an object, or inside the objects of an array.
    """

    owner: str | None = None
    description: str | None = None
    documentation: str | None = None
    tags: list[str] = []
    classification: str | None = None
    deprecated: str | None = None
    columns: dict[str, ColumnEntry] = {}


class Annotations(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The annotations of a lake, of a tap and of a table.

    Attributes:
        owner: As a column's, like all that is not listed here.
        job_url: The job that fills it.
        job_status: What is to be known of that job.
        freshness: How old its last sync may be, for example ``24h``.
        requirements: What a snapshot must meet to be frozen, for example ``rows > 0``; of the lake
            and of a tap, each of its tables.
    """

    owner: str | None = None
    description: str | None = None
    documentation: str | None = None
    job_url: str | None = None
    job_status: str | None = None
    tags: list[str] = []
    classification: str | None = None
    freshness: str | None = None
    requirements: list[str] = []
    deprecated: str | None = None


class TableEntry(Annotations, frozen=True, kw_only=True):
    """The annotations of a table, and of its columns by their names."""

    columns: dict[str, ColumnEntry] = {}


class JobRun(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The last run of a target that said where it ran.

    Attributes:
        time: When it ended, ISO 8601 in UTC.
        outcome: ``succeeded`` or ``failed``.
        rows: Records that it committed.
        tables: Tables that it changed.
        url: Where the scheduler shows the run.
        job: The job's name there.
        scheduler: What started it, for example ``Airflow``.
    """

    time: str
    outcome: str
    rows: int = 0
    tables: int = 0
    url: str | None = None
    job: str | None = None
    scheduler: str | None = None


class TapEntry(Annotations, frozen=True, kw_only=True):
    """The annotations of a tap in the lake's file.

    Attributes:
        last_run: The last run of the target that brought its streams.
        tables: Its tables, by the stream's name.
    """

    last_run: JobRun | None = None
    tables: dict[str, TableEntry] = {}


class Publication(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A place outside the lake where rows of it are kept up to date.

    Attributes:
        tables: The tables that they are of, as ``tap.stream``; ``from`` on disk.
        to: The place, without credentials.
        format: How they lie there, for example ``parquet``.
        erased: Of tables that it descends from, the last transaction that erased rows and after
            which all was published anew: nothing from before that is left there.
        again: Frozen versions that were deleted there for such a reason, and are not yet
            published again.
    """

    tables: list[str] = msgspec.field(name="from")
    to: str
    format: str
    erased: dict[str, int] = {}
    again: list[int] = []

    def same_place(self, other: Publication) -> bool:
        """Tell whether another says the same of what is published where."""
        return (self.tables, self.to, self.format) == (other.tables, other.to, other.format)
