"""Cite a version."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.format.names import TableRef
from singerlake.lake import Lake, Table
from singerlake.log.versions import erasure_words
from singerlake.site.citation import Cited, cited_version
from singerlake.site.lists import lake_title


def cite_version(lake: Lake, table: Table, ref: TableRef) -> tuple[Cited, list[str]]:
    """Return the citation of a version, and notes for its reader.

    Args:
        lake: The lake, whose annotations name who answers for the table.
        ref: Names the version: by number, label or pointer.

    Raises:
        UsageError: A head or a transaction is named, which later operations may change.
        NotFoundError: There is no such version.
    """
    if ref.version is None:
        raise UsageError(
            f"{ref.table} is the head, which moves: freeze it (singerlake freeze {ref.table}), "
            "then cite the version"
        )
    version, _ = table.snapshot().named(ref.version)
    if version is None:
        raise UsageError(
            f"{ref} is a transaction, whose snapshot may expire: freeze it (singerlake freeze "
            f"{ref.table} --transaction {ref.version[1:]}), then cite the version"
        )
    said = lake.annotations()
    owner = said.table(ref.table).owner or said.tap(ref.table.tap).owner or said.owner
    cited = cited_version(lake_title(lake.store.uri), str(ref.table), owner, version)
    return cited, erasure_words(version)
