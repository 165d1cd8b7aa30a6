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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from singerlake import extras
from singerlake.errors import SingerlakeError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.lineage_events import NAMESPACE, PARENT, Columns, Events, Place, Seen
from singerlake.log.table_state import TableState
from singerlake.safe_text import redacted, remember_secrets

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""How long the end of a run waits for its events to be taken."""
PREFIX = "OPENLINEAGE_"


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
        self._read: list[Seen] = []
        self._wrote: list[Seen | Place] = []
        self._ended = False
        if self.active:
            remember_secrets([os.environ.get(f"{PREFIX}API_KEY")])
            self._sender = _Sender()
            self._tell("START")

    def read(self, snapshot: TableState, *, rows: int | None = None) -> None:
        """Take up a state that the run has read."""
        if self.active:
            self._read.append(Seen(snapshot, rows))

    def wrote(
        self,
        snapshot: TableState | Callable[[], TableState],
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
            logger.warning("cannot send what was written to OpenLineage: %s", error)
            return
        self._wrote.append(Seen(after, rows, size, version, _found(columns)))

    def published(
        self,
        uri: str,
        columns: Sequence[tuple[str, str]],
        rows: int,
        origins: Callable[[], Columns],
    ) -> None:
        """Take up a place that the run has published to; see :class:`Place`."""
        if self.active:
            self._wrote.append(Place(uri, columns, rows, _found(origins)))

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
            return Events(self._uri, self._job, self._kind, self._id).event(
                state, now, read, wrote, _message(error)
            )

        self._sender.send(event)


def told(table: Table, kind: str, *, active: bool = True) -> AbstractContextManager[Told]:
    """Tell of a job on one table, from its begin to its end.

    Args:
        table: The table.
        kind: The job, for example ``freeze``.
        active: Whether it is to be told at all.
    """
    return told_job(table.store.uri, str(table.name), kind, active=active)


@contextmanager
def told_job(uri: str, name: str, kind: str, *, active: bool = True) -> Iterator[Told]:
    """Tell of a job on something else in a lake.

    Args:
        uri: Where the lake is.
        name: What the job is on.
        kind: The job, for example ``publish``.
        active: Whether it is to be told at all.
    """
    run = Told(uri, f"{kind}.{name}", kind.upper(), active=active)
    try:
        yield run
    except BaseException as error:
        run.end(error)
        raise
    run.end()


def same_columns(before: TableState) -> Columns:
    """Say that columns have the values of those of the same name in another state."""
    return {name: [(before.table, name)] for name, _ in before.columns}


def _is_installed() -> bool:
    if find_spec("openlineage") is not None:
        return True
    logger.warning(
        "OpenLineage is configured, but its client is not installed, so no events are sent: %s",
        extras.install_line("openlineage"),
    )
    return False


def _found(columns: Columns | Callable[[], Columns] | None) -> Columns:
    if not callable(columns):
        return columns or {}
    try:
        return columns()
    except Exception as error:  # noqa: BLE001  # the job is done, whatever its plan looks like
        logger.warning("cannot send column lineage to OpenLineage: %s", type(error).__name__)
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
            logger.warning("OpenLineage did not accept all events within %g s", SECONDS)

    def _work(self) -> None:
        client: OpenLineageClient | None = None
        while (event := self._events.get()) is not None:
            try:
                if client is None:
                    from openlineage.client import OpenLineageClient

                    client = OpenLineageClient()
                client.emit(event())
            except Exception as error:  # noqa: BLE001  # of transports by others, too
                logger.warning("events could not be sent to OpenLineage: %s", type(error).__name__)
        if client is not None:
            client.close(SECONDS)
