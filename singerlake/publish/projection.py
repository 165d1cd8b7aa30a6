"""What a projection is: rows, by SQL over tables of a lake, and where they go.

Plain data. It is read from a file of projections, or put together from a command's options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from hashlib import sha256

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.format.sql_tokens import tokens
from singerlake.format.types import RULES
from singerlake.storage.options import StoreOptions

DEFAULT_KEEP = timedelta(days=1)
"""How long readers of former files find them, unless the projection says otherwise."""
DEFAULT_FILE_BYTES = 128 << 20
"""How large a published file becomes, about."""


_DIGITS = {
    "sql": 16,
    "key": 10,
    "order_by": 10,
    "partition_by": 10,
    "format": 6,
    "compression": 6,
    "rules": 6,
}
"""How many digits of a definition each field has: enough that no accident makes two alike."""
DECIDE_ROWS = frozenset({"sql", "key", "rules"})
"""The fields that say which rows there are; the others, how they lie where they are published."""


class Format(str, Enum):
    """How published rows lie on a store."""

    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    AVRO = "avro"
    ICEBERG = "iceberg"
    DELTA = "delta"

    def __str__(self) -> str:
        return self.value

    @property
    def is_table_format(self) -> bool:
        """Whether readers go by a log of its own rather than by files in a folder."""
        return self in (Format.ICEBERG, Format.DELTA)


class OnSchemaChange(str, Enum):
    """What becomes of a projection whose rows get other columns."""

    EVOLVE = "evolve"
    """What was published follows."""
    FAIL = "fail"
    """Nothing is written, and the difference is told."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class OrderKey:
    """A column that rows are ordered by. Nulls come last, whichever the direction."""

    column: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} desc" if self.descending else self.column


class Transform(str, Enum):
    """What a partition is made of, as Iceberg names it."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    BUCKET = "bucket"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class PartitionKey:
    """A column by which files are kept apart.

    Attributes:
        column: The column.
        transform: What of its values counts.
        buckets: How many there are of them, with ``bucket``.
    """

    column: str
    transform: Transform = Transform.IDENTITY
    buckets: int = 0

    def __str__(self) -> str:
        if self.transform is Transform.IDENTITY:
            return self.column
        if self.transform is Transform.BUCKET:
            return f"bucket({self.buckets}, {self.column})"
        return f"{self.transform}({self.column})"


@dataclass(frozen=True)
class Target:
    """Where and how rows are published.

    Attributes:
        uri: A folder, or ``s3://bucket/prefix``, ``gs://…`` or ``az://…``.
        format: How they lie there.
        compression: Of the files; None for what is usual for the format.
        file_bytes: How large a file becomes, about.
        options: How the store is reached; the lake's own credentials are not taken.
        unset: Environment variables that shall say so, and do not.
        catalog: The properties of pyiceberg's catalog; empty for one of SQLite beside the table.
        identifier: The Iceberg table's name in it, ``namespace.table``; empty for the
            projection's.
    """

    uri: str
    format: Format
    compression: str | None = None
    file_bytes: int = DEFAULT_FILE_BYTES
    options: StoreOptions = field(default_factory=StoreOptions)
    unset: tuple[str, ...] = ()
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    identifier: str = ""

    def check_set(self) -> None:
        """Make sure, before it is opened, that all is known by which it is reached.

        Raises:
            UsageError: An environment variable is not set.
        """
        if self.unset:
            raise UsageError(
                f"{self.uri} needs the environment variable {', '.join(self.unset)}: set it"
            )


@dataclass(frozen=True)
class Projection:
    """Rows that are kept up to date in another place, another order, another form.

    Attributes:
        name: What it is called; unique in its file. One that was never declared goes by where it
            is published.
        sql: One SELECT over tables of the lake. ``select *`` of a table where only that was named.
        sources: The tables that the SQL names, as it names them: with versions, if it does.
        stage: The table of the lake that holds the rows; None to publish without one.
        key: The columns by which a row is known again.
        order_by: What published rows are ordered by.
        partition_by: What files are kept apart by.
        target: Where rows are published; None only to stage them.
        incremental: Take only rows that changed, where the SQL allows it.
        versions: Publish frozen versions as well.
        keep: How long what was published before stays readable.
        on_schema_change: What to do if the columns change.
        where: Where it is declared, ``projections.yml, line 3``; for messages.
    """

    name: str
    sql: str
    sources: tuple[str, ...] = ()
    stage: TableName | None = None
    key: tuple[str, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    partition_by: tuple[PartitionKey, ...] = ()
    target: Target | None = None
    incremental: bool = True
    versions: bool = False
    keep: timedelta = DEFAULT_KEEP
    on_schema_change: OnSchemaChange = OnSchemaChange.EVOLVE
    where: str = ""

    @property
    def definition(self) -> str:
        """Hashes of all that decides which rows there are, and how they lie: 64 digits.

        Where it changes, what was published is built anew. Each field has digits of its own, so
        that :meth:`changed_since` can tell which it was.
        """
        target = self.target
        said: dict[str, object] = {
            # Its tokens: neither comments nor the ends of lines decide anything.
            "sql": [token.text for token in tokens(self.sql)],
            "key": self.key,
            "order_by": [str(one) for one in self.order_by],
            "partition_by": [str(one) for one in self.partition_by],
            "format": str(target.format) if target else None,
            "compression": target.compression if target else None,
            # A newer release may make columns of other types of the same schemas.
            "rules": RULES,
        }
        return "".join(
            sha256(json.dumps(said[name]).encode()).hexdigest()[:digits]
            for name, digits in _DIGITS.items()
        )

    def changed_since(self, definition: str) -> tuple[str, ...]:
        """Tell which fields have changed since a definition; none where it is this one."""
        mine, changed, start = self.definition, [], 0
        for name, digits in _DIGITS.items():
            if mine[start : start + digits] != definition[start : start + digits]:
                changed.append(name)
            start += digits
        return tuple(changed) or (() if mine == definition else tuple(_DIGITS))
