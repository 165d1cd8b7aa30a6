"""A projection that is declared nowhere: put together from a command's options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.format.sql_tables import Reference, find, reference
from singerlake.format.types import Kind
from singerlake.lake import Lake
from singerlake.publish import spelling
from singerlake.publish.places import straight
from singerlake.publish.projection import (
    DEFAULT_FILE_BYTES,
    DEFAULT_KEEP,
    Format,
    Projection,
    Target,
)
from singerlake.storage.opening import folder, is_remote, open_store
from singerlake.storage.options import StoreOptions, from_environment


@dataclass(frozen=True)
class AdHoc:
    """What is said of a projection in a command or a call; texts as people write them.

    Attributes:
        to: Where it is published: a folder, or ``s3://bucket/prefix`` …
        table: The table, or the version of one, whose rows it has.
        sql: One SELECT instead.
        where: Which of the table's rows, as in SQL.
        format: How rows lie there.
        key: The columns by which a row is known again, ``id``; empty for the table's own.
        order_by: ``ordered_at desc, id``.
        partition_by: ``country, month(ordered_at)``.
        compression: Of the files; None for what is usual for the format.
        file_size: ``128MB``; None for what is usual.
        incremental: Take only rows that changed, where the SQL allows it.
        versions: Publish frozen versions as well.
        keep: How long former files stay.
        options: How the destination is reached.
    """

    to: str
    table: str | None = None
    sql: str | None = None
    where: str | None = None
    format: str = "parquet"
    key: str = ""
    order_by: str = ""
    partition_by: str = ""
    compression: str | None = None
    file_size: str | None = None
    incremental: bool = True
    versions: bool = False
    keep: timedelta = DEFAULT_KEEP
    options: StoreOptions | None = None

    def projection(self, lake: Lake) -> Projection:
        """Put the projection together. It is called by the place where it is published.

        Args:
            lake: Has the table.

        Raises:
            UsageError: Something cannot be what is said.
            NotFoundError: The lake has no such table.
        """
        source = self._source(lake)
        sql = self._sql(source)
        options = from_environment() if self.options is None else self.options
        uri = open_store(_as_named(self.to), options).uri
        size = DEFAULT_FILE_BYTES if self.file_size is None else spelling.size(self.file_size)
        return Projection(
            name=uri,
            sql=sql,
            sources=spelling.sources(sql),
            key=spelling.columns(self.key) if self.key else _key_of(lake, source),
            order_by=spelling.order(self.order_by) if self.order_by else (),
            partition_by=spelling.partitions(self.partition_by) if self.partition_by else (),
            target=Target(uri, Format(self.format), self.compression, size, options),
            incremental=self.incremental,
            versions=self.versions,
            keep=self.keep,
        )

    def _source(self, lake: Lake) -> Reference | None:
        """The table, called as the lake calls it, however somebody wrote its name; None for SQL."""
        if (self.table is None) == (self.sql is None):
            raise UsageError("name the table to publish, or pass SQL")
        if self.table is None:
            return None
        (source,) = spelling.sources(spelling.select_all(self.table))
        named = reference(source)
        table, version = find(named.parts, lake.tables())
        parts = (table.tap, table.stream, *(() if version is None else (version,)))
        return replace(named, parts=parts)

    def _sql(self, source: Reference | None) -> str:
        if source is not None:
            sql = spelling.select_from(source)
            return sql if self.where is None else f"{sql} where {self.where}"
        if self.where is not None:
            raise UsageError("where needs a table: write the condition into the SQL")
        assert self.sql is not None  # noqa: S101  # one of the two
        return self.sql


def _key_of(lake: Lake, source: Reference | None) -> tuple[str, ...]:
    """The key that the table has; none for SQL, whose rows may have another.

    None also where one of its columns has no order: rows cannot be sorted by it.
    """
    if source is None:
        return ()
    tap, stream, *version = source.parts
    named = version[0] if version else source.version
    snapshot = lake.table(TableName(tap, stream)).snapshot_at(named)
    key = [snapshot.columns[index] for index in snapshot.key]
    if any(type_.kind in (Kind.STRUCT, Kind.LIST) for _, type_ in key):
        return ()
    return tuple(name for name, _ in key)


def _as_named(to: str) -> str:
    """A place as it is named, however somebody wrote the way to it."""
    return to if not to or is_remote(to) else str(straight(folder(to, "a destination")))
