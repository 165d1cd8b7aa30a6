"""Lineage for catalogs that speak OpenLineage: which run read and wrote which tables.

Events go out where the client is configured, by its own variables or file, and nowhere else. They
are built and sent on a thread of their own: neither an import nor a server that is gone holds up
a run, and none of it can fail one.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake import extras
from singerlake.errors import SingerlakeError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.types import descriptions_of
from singerlake.lake import Table
from singerlake.safe_text import redacted, remember_secrets
from singerlake.transactions.snapshot import Snapshot
from singerlake.version import __version__

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import Dataset, RunEvent

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""How long the end of a run waits for its events to be taken."""
PREFIX = "OPENLINEAGE_"
NAMESPACE = "OPENLINEAGE_NAMESPACE"
PARENT = "OPENLINEAGE_PARENT_ID"
_PARENT_PARTS = 3

Columns = Mapping[str, Sequence[tuple[TableName, str]]]
"""For columns of a table, the columns of tables that they come from. Columns that a table has not
are no harm."""


def is_configured() -> bool:
    """Whether the client would find where to send events to."""
    if os.environ.get(f"{PREFIX}DISABLED", "").strip().lower() == "true":
        return False
    own = (NAMESPACE, PARENT, f"{PREFIX}DISABLED")
    if any(name.startswith(PREFIX) and name not in own for name in os.environ):
        return True
    return any((place / "openlineage.yml").is_file() for place in _places())


def _places() -> Iterator[Path]:
    yield Path()
    if home := os.environ.get("HOME"):
        yield Path(home) / ".openlineage"


@dataclass(frozen=True)
class _Seen:
    """A table that a run read or wrote, as its log has it."""

    snapshot: Snapshot
    rows: int | None = None
    size: int | None = None
    version: FrozenVersion | None = None
    columns: Columns = field(default_factory=dict)


class Told:
    """One run, and what is told of it. Where nobody is to be told, it does nothing.

    Args:
        uri: Where the lake is.
        job: What ran.
        kind: What sort of job that is, for example ``FREEZE``.

    Attributes:
        active: Whether anybody is told.
    """

    def __init__(self, uri: str, job: str, kind: str, *, active: bool = True) -> None:
        self.active = active and is_configured() and _is_installed()
        self._uri = uri
        self._job = job
        self._kind = kind
        self._id = str(uuid.uuid4())
        self._read: list[_Seen] = []
        self._wrote: list[_Seen] = []
        self._ended = False
        if self.active:
            remember_secrets([os.environ.get(f"{PREFIX}API_KEY")])
            self._sender = _Sender()
            self._tell("START")

    def read(self, snapshot: Snapshot, *, rows: int | None = None) -> None:
        """Take up a state that the run has read."""
        if self.active:
            self._read.append(_Seen(snapshot, rows))

    def wrote(
        self,
        snapshot: Snapshot | Callable[[], Snapshot],
        *,
        rows: int | None = None,
        size: int | None = None,
        version: FrozenVersion | None = None,
        columns: Columns | Callable[[], Columns] | None = None,
    ) -> None:
        """Take up a table that the run has written.

        Args:
            snapshot: The table after it, or what reads it, which is called only if needed.
            rows: Rows written.
            size: Compressed bytes of them.
            version: The version that was frozen.
            columns: Where its columns come from, as far as that is known, or what finds it out.
        """
        if not self.active:
            return
        try:
            after = snapshot() if callable(snapshot) else snapshot
        except SingerlakeError as error:  # what was written is written
            logger.warning("cannot tell OpenLineage what was written: %s", error)
            return
        self._wrote.append(_Seen(after, rows, size, version, _found(columns)))

    def end(self, error: BaseException | None = None) -> None:
        """Tell how the run ended, once. Never raises."""
        if self._ended or not self.active:
            return
        self._ended = True
        if error is None:
            self._tell("COMPLETE")
        else:
            self._tell("FAIL" if isinstance(error, Exception) else "ABORT", error)
        self._sender.finish()

    def _tell(self, state: str, error: BaseException | None = None) -> None:
        now, read, wrote = times.iso(times.now()), [*self._read], [*self._wrote]

        def event() -> RunEvent:
            return _Words(self._uri, self._job, self._kind, self._id).event(
                state, now, read, wrote, _message(error)
            )

        self._sender.send(event)


@contextmanager
def told(table: Table, kind: str, *, active: bool = True) -> Iterator[Told]:
    """Tell of a job on one table, from its begin to its end.

    Args:
        table: The table.
        kind: The job, for example ``freeze``.
        active: Whether it is to be told at all.
    """
    run = Told(table.store.uri, f"{kind}.{table.name}", kind.upper(), active=active)
    try:
        yield run
    except BaseException as error:
        run.end(error)
        raise
    run.end()


def same_columns(before: Snapshot) -> Columns:
    """Say that columns have the values of those of the same name in another state."""
    return {name: [(before.table, name)] for name, _ in before.columns}


def dataset_name(uri: str, table: TableName) -> tuple[str, str]:
    """Name a table as OpenLineage names what lies there: namespace and name."""
    folder = table.folder.rstrip("/")
    if "://" not in uri:
        return "file", str(Path(uri).resolve() / folder)
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    return f"{scheme}://{bucket}", "/".join(filter(None, (prefix.strip("/"), folder)))


def _is_installed() -> bool:
    if find_spec("openlineage") is not None:
        return True
    logger.warning(
        "OpenLineage is configured, and its client is not installed, so nothing is told: %s",
        extras.install_line("openlineage"),
    )
    return False


def _found(columns: Columns | Callable[[], Columns] | None) -> Columns:
    if not callable(columns):
        return columns or {}
    try:
        return columns()
    except Exception as error:  # noqa: BLE001  # the job is done, whatever its plan looks like
        logger.warning("cannot tell OpenLineage where columns come from: %s", type(error).__name__)
        return {}


def _message(error: BaseException | None) -> str | None:
    if error is None:
        return None
    # Others' words may hold anything; they are in the log.
    return redacted(str(error)) if isinstance(error, SingerlakeError) else type(error).__name__


class _Sender:
    """Sends events in order, on a thread that nobody has to wait for."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Callable[[], RunEvent] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: Callable[[], RunEvent]) -> None:
        self._events.put(event)

    def finish(self) -> None:
        """Wait for what is left, for a while."""
        self._events.put(None)
        self._thread.join(SECONDS)
        if self._thread.is_alive():
            logger.warning("OpenLineage has not taken all events within %g s", SECONDS)

    def _work(self) -> None:
        client: OpenLineageClient | None = None
        while (event := self._events.get()) is not None:
            try:
                if client is None:
                    from openlineage.client import OpenLineageClient

                    client = OpenLineageClient()
                client.emit(event())
            except Exception as error:  # noqa: BLE001  # of transports by others, too
                logger.warning("OpenLineage was not told: %s", type(error).__name__)
        if client is not None:
            client.close(SECONDS)


class _Words:
    """A run in the words of OpenLineage. Used on the sender's thread alone, which imports them."""

    def __init__(self, uri: str, job: str, kind: str, run: str) -> None:
        from openlineage.client import event_v2, facet_v2

        self._events: Any = event_v2
        self._facets: Any = facet_v2
        self._uri = uri
        self._job = job
        self._kind = kind
        self._run = run

    def event(
        self, state: str, time: str, read: list[_Seen], wrote: list[_Seen], message: str | None
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

    def _input(self, seen: _Seen) -> Dataset:
        facets = {}
        if seen.rows is not None:
            statistics = self._facets.input_statistics_input_dataset
            facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(seen.rows)
        dataset: Dataset = self._events.InputDataset(
            *self._name(seen.snapshot.table), facets, facets=dict(self._table_facets(seen))
        )
        return dataset

    def _output(self, seen: _Seen) -> Dataset:
        facets = {}
        if seen.rows is not None:
            statistics = self._facets.output_statistics_output_dataset
            facet = statistics.OutputStatisticsOutputDatasetFacet(seen.rows, seen.size)
            facets["outputStatistics"] = facet
        dataset: Dataset = self._events.OutputDataset(
            *self._name(seen.snapshot.table), facets, facets=dict(self._table_facets(seen))
        )
        return dataset

    def _name(self, table: TableName) -> tuple[str, str]:
        return dataset_name(self._uri, table)

    def _table_facets(self, seen: _Seen) -> Iterator[tuple[str, Any]]:
        snapshot, facets = seen.snapshot, self._facets
        described = descriptions_of(snapshot.schema)
        schema = facets.schema_dataset
        yield (
            "schema",
            schema.SchemaDatasetFacet(
                [
                    schema.SchemaDatasetFacetFields(name, str(type_), described.get(name))
                    for name, type_ in snapshot.columns
                ]
            ),
        )
        version = facets.dataset_version_dataset
        yield "version", version.DatasetVersionDatasetFacet(str(snapshot.number))
        links = facets.symlinks_dataset
        identifier = links.Identifier("singerlake", str(snapshot.table), "TABLE")
        yield "symlinks", links.SymlinksDatasetFacet([identifier])
        if seen.version is not None:
            yield "tags", self._tags(seen.version)
        if seen.columns:
            there = {name for name, _ in snapshot.columns}
            known = {name: seen.columns[name] for name in seen.columns if name in there}
            yield "columnLineage", self._column_lineage(known)

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

    def _column_lineage(self, columns: Columns) -> Any:
        lineage = self._facets.column_lineage_dataset
        return lineage.ColumnLineageDatasetFacet(
            {
                column: lineage.Fields(
                    [lineage.InputField(*self._name(table), name, []) for table, name in origins]
                )
                for column, origins in columns.items()
            }
        )
