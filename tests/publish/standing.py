"""Projections as refreshes leave them, without Spark: what logs and destinations say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from singerlake.format.log import Operation
from singerlake.lake import Lake
from singerlake.log.commit import commit, draft_entry
from singerlake.ops.publish.write.published_files import FilesWriter
from singerlake.publish import refreshes
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.positions import state_of
from singerlake.publish.projection import Projection
from singerlake.publish.published import Commit, Position, Published, SourceState
from tests.build import commit_rows

ID = {"id": {"type": "integer"}}
SCHEMA = pa.schema([("id", pa.int64())])


def sync(lake: Lake, table: str, *ids: int, properties: dict[str, Any] = ID) -> None:
    """Commit rows of a source."""
    commit_rows(lake, table, properties, ["id"], [{"id": one} for one in ids or (1,)])


def states(
    lake: Lake, tables: Sequence[str], version: int | None = None
) -> tuple[SourceState, ...]:
    """The tables as they are."""
    found = [lake.find(table)[0] for table in tables]
    return tuple(state_of(one.snapshot_at(version and str(version)), version) for one in found)


def stage(lake: Lake, one: Projection, *sources: str, rows: Sequence[int] = (1,)) -> None:
    """Leave a staging table as a refresh does: its rows, and a transaction that says of what."""
    assert one.stage is not None
    if rows:
        sync(lake, str(one.stage), *rows)
    position = Position(one.name, one.definition, lake.store.uri, states(lake, sources))
    entry = draft_entry(
        one.stage, Operation.CHANGE, version=None, metadata=refreshes.metadata_of(position)
    )
    commit(lake.store, lake.table(one.stage).snapshot(), lambda _: entry)


def publish(
    lake: Lake,
    one: Projection,
    *sources: str,
    files: Sequence[Sequence[int]] = ((1,),),
    version: int | None = None,
) -> Published:
    """Publish files of these ids, as if they were a version of the sources, or the head."""
    assert one.target is not None
    place = open_destination(one)
    base = place.published()
    step = FilesWriter.of(one, place, SCHEMA)
    batches = [pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA) for ids in files]
    added = [file for n, batch in enumerate(batches) for file in step.files(iter([batch]), n)]
    read = states(lake, sources, version)
    position = Position(one.name, one.definition, lake.store.uri, read)
    removed = () if base is None else base.files
    return place.commit(base, Commit(position, SCHEMA, (), added, removed))
