"""The events of a run for OpenLineage.

Used on a thread of its own alone, which imports OpenLineage's classes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.types import descriptions_of
from singerlake.log.table_state import TableState
from singerlake.version import __version__

if TYPE_CHECKING:
    from openlineage.client.event_v2 import Dataset, RunEvent

NAMESPACE = "OPENLINEAGE_NAMESPACE"
PARENT = "OPENLINEAGE_PARENT_ID"
_PARENT_PARTS = 3

Columns = Mapping[str, Sequence[tuple[TableName, str]]]
"""For columns of a table, the columns of tables that they come from. Columns that a table has not
are no harm."""


@dataclass(frozen=True)
class TableAtRun:
    """A table that a run read or wrote, as its log has it."""

    snapshot: TableState
    rows: int | None = None
    size: int | None = None
    version: FrozenVersion | None = None
    columns: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A place where rows were published, which is not a table of a lake.

    Attributes:
        columns: The rows' columns and their types, as people read them.
        origins: Where the columns come from.
    """

    uri: str
    columns: Sequence[tuple[str, str]]
    rows: int
    origins: Columns = field(default_factory=dict)


class Events:
    """A run in the words of OpenLineage."""

    def __init__(self, uri: str, job: str, kind: str, run: str) -> None:
        from openlineage.client import event_v2, facet_v2

        self._events: Any = event_v2
        self._facets: Any = facet_v2
        self._uri = uri
        self._job = job
        self._kind = kind
        self._run = run

    def event(
        self,
        state: str,
        time: str,
        read: list[TableAtRun],
        wrote: list[TableAtRun | Place],
        message: str | None,
    ) -> RunEvent:
        """Build one event."""
        namespace = os.environ.get(NAMESPACE) or "singerlake"
        kind = self._facets.job_type_job.JobTypeJobFacet("BATCH", "SINGERLAKE", self._kind)
        event: RunEvent = self._events.RunEvent(
            eventTime=time,
            producer=f"urn:singerlake:{__version__}",
            eventType=self._events.RunState[state],
            run=self._events.Run(self._run, dict(self._run_facets(message))),
            job=self._events.Job(namespace, self._job, {"jobType": kind}),
            inputs=[self._input(seen) for seen in read],
            outputs=[self._output(seen) for seen in wrote],
        )
        return event

    def _run_facets(self, message: str | None) -> Iterator[tuple[str, Any]]:
        facets = self._facets
        engine = facets.processing_engine_run.ProcessingEngineRunFacet(__version__, "singerlake")
        yield "processing_engine", engine
        if message is not None:
            yield "errorMessage", facets.error_message_run.ErrorMessageRunFacet(message, "PYTHON")
        parent = os.environ.get(PARENT, "").split("/")
        if len(parent) == _PARENT_PARTS:
            namespace, job, run = parent
            facet = facets.parent_run
            yield "parent", facet.ParentRunFacet(facet.Run(run), facet.Job(namespace, job))

    def _input(self, seen: TableAtRun) -> Dataset:
        facets = {}
        if seen.rows is not None:
            statistics = self._facets.input_statistics_input_dataset
            facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(seen.rows)
        dataset: Dataset = self._events.InputDataset(
            *self._name(seen.snapshot.table), facets, facets=dict(self._table_facets(seen))
        )
        return dataset

    def _output(self, seen: TableAtRun | Place) -> Dataset:
        facets, size = {}, None
        if isinstance(seen, Place):
            name, about = place_name(seen.uri), self._place_facets(seen)
        else:
            name, about = self._name(seen.snapshot.table), self._table_facets(seen)
            size = seen.size
        if seen.rows is not None:
            statistics = self._facets.output_statistics_output_dataset
            facet = statistics.OutputStatisticsOutputDatasetFacet(seen.rows, size)
            facets["outputStatistics"] = facet
        dataset: Dataset = self._events.OutputDataset(*name, facets, facets=dict(about))
        return dataset

    def _name(self, table: TableName) -> tuple[str, str]:
        return dataset_name(self._uri, table)

    def _table_facets(self, seen: TableAtRun) -> Iterator[tuple[str, Any]]:
        snapshot, facets = seen.snapshot, self._facets
        columns = [(name, str(kind)) for name, kind in snapshot.columns]
        yield "schema", self._schema(columns, descriptions_of(snapshot.schema))
        version = facets.dataset_version_dataset
        yield "version", version.DatasetVersionDatasetFacet(str(snapshot.number))
        links = facets.symlinks_dataset
        identifier = links.Identifier("singerlake", str(snapshot.table), "TABLE")
        yield "symlinks", links.SymlinksDatasetFacet([identifier])
        if seen.version is not None:
            yield "tags", self._tags(seen.version)
        if seen.columns:
            yield "columnLineage", self._column_lineage(seen.columns, [name for name, _ in columns])

    def _place_facets(self, place: Place) -> Iterator[tuple[str, Any]]:
        yield "schema", self._schema(place.columns, {})
        if place.origins:
            names = [name for name, _ in place.columns]
            yield "columnLineage", self._column_lineage(place.origins, names)

    def _schema(self, columns: Sequence[tuple[str, str]], described: Mapping[str, str]) -> Any:
        schema = self._facets.schema_dataset
        return schema.SchemaDatasetFacet(
            [
                schema.SchemaDatasetFacetFields(name, kind, described.get(name))
                for name, kind in columns
            ]
        )

    def _tags(self, version: FrozenVersion) -> Any:
        tags = self._facets.tags_dataset
        said = {
            "version": str(version.number),
            "label": version.label,
            "fingerprint": version.fingerprint,
        }
        return tags.TagsDatasetFacet(
            [tags.TagsDatasetFacetFields(k, v, "singerlake") for k, v in said.items() if v]
        )

    def _column_lineage(self, columns: Columns, there: Sequence[str]) -> Any:
        lineage = self._facets.column_lineage_dataset
        return lineage.ColumnLineageDatasetFacet(
            {
                column: lineage.Fields(
                    [lineage.InputField(*self._name(table), name, []) for table, name in origins]
                )
                for column, origins in columns.items()
                if column in there
            }
        )


def dataset_name(uri: str, table: TableName) -> tuple[str, str]:
    """Name a table as OpenLineage names what lies there: namespace and name."""
    namespace, name = place_name(uri)
    return namespace, "/".join(filter(None, (name, table.folder.rstrip("/"))))


def place_name(uri: str) -> tuple[str, str]:
    """Name a folder or a prefix as OpenLineage names what lies there: namespace and name."""
    if "://" not in uri:
        return "file", str(Path(uri).resolve())
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    return f"{scheme}://{bucket}", prefix.strip("/")
