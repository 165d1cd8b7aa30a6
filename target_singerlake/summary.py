"""What a run did, as data: in a file, and as events, once it has ended."""

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singer_sdk.exceptions import ConfigurationError, MappingError

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import times
from singerlake.format.log import FrozenVersion
from singerlake.format.names import REJECTED, TableName
from singerlake.lineage import Told
from singerlake.safe_text import redacted
from target_singerlake import job
from target_singerlake.contract import Contract
from target_singerlake.mapped_streams import MappedStreams
from target_singerlake.progress import Progress
from target_singerlake.quarantine import Quarantine
from target_singerlake.run import Run

if TYPE_CHECKING:
    from target_singerlake.hook import Hook


class Summary:
    """Gathers what a run did, and says it at its end.

    Args:
        config: The settings.
        logger: For what could not be said.
        progress: The run's counts.

    Attributes:
        run: Set once there is one.
        contract: The same.
        quarantine: The same, where there is one.
        mapped: The streams that have other names in the lake.
        versions: What was frozen.

    Raises:
        UsageError: The settings cannot be done.
    """

    def __init__(
        self, config: Mapping[str, Any], logger: logging.Logger, progress: Progress
    ) -> None:
        self._logger = logger
        self._progress = progress
        self._started = times.iso(times.now())
        path = config.get("summary_file")
        self._path = Path(path) if path else None
        said = config.get("on_event")
        self._hook = _hook(said, logger) if said else None
        self._about: dict[str, Any] = {}
        self._lineage: Told | None = None
        self._done = False
        self.run: Run | None = None
        self.contract: Contract | None = None
        self.quarantine: Quarantine | None = None
        self.mapped: MappedStreams | None = None
        self.versions: list[tuple[TableName, FrozenVersion]] = []

    @property
    def wanted(self) -> bool:
        """Whether anybody is told of the run."""
        return self._path is not None or self._hook is not None

    def about(self, lake: str, tap: str, metadata: Mapping[str, Any]) -> None:
        """Say which run it is."""
        self._about = {"lake": lake, "tap": tap, "metadata": dict(metadata)}
        self._lineage = Told(lake, f"target-singerlake.{tap}", "SYNC")

    def frozen(self, table: TableName, version: FrozenVersion) -> None:
        """Take up a version."""
        self.versions.append((table, version))

    def end(self, error: BaseException | None = None) -> None:
        """Say it, once. Never raises.

        Args:
            error: Why the run failed; None if it did not.
        """
        if self._done:
            return
        self._done = True
        self._tell_lineage(error)
        if self._path is not None:
            self._write(self._path, self._document(error))
        if self._hook is not None:
            for event, content in self._events(error):
                named = {"event": event, "time": times.iso(times.now()), **self._about}
                self._hook.tell({**named, **content})

    def _tell_lineage(self, error: BaseException | None) -> None:
        if self._lineage is None:
            return
        if self.run is not None:
            for table, done in sorted(self.run.committed.items()):
                self._lineage.wrote(self.run.snapshots[table], rows=done.rows, size=done.size)
        self._lineage.end(error)

    def _document(self, error: BaseException | None) -> dict[str, Any]:
        progress = self._progress
        return {
            "outcome": job.SUCCEEDED if error is None else job.FAILED,
            **self._about,
            "started": self._started,
            "ended": times.iso(times.now()),
            "read": {"records": progress.records, "bytes": progress.bytes},
            "records": progress.stored_rows,
            "bytes": progress.stored_bytes,
            "deletions": progress.deletions,
            "rejected": progress.refused,
            "blocked": self.run.left_out.counts.total() if self.run is not None else 0,
            "tables": self._tables(),
            "schema_changes": self._changes(),
            "versions": self._versions(),
            "error": _error(error),
        }

    def _tables(self) -> list[dict[str, Any]]:
        """The tables that were committed to, but for those of refused lines."""
        run = self.run
        if run is None:
            return []
        refused: Counter[str] = Counter()
        for table, lines in run.put_aside.items():
            stream = table.stream.removesuffix(REJECTED)
            for name in {stream} if self.mapped is None else self.mapped.names(stream):
                refused[name] += lines
        return [
            {
                "table": str(table),
                "transaction": done.transaction,
                "records": done.rows,
                "bytes": done.size,
                "deletions": done.deletions,
                "rejected": refused[table.stream],
            }
            for table, done in sorted(run.committed.items())
            if table not in run.put_aside
        ]

    def _rejected(self) -> list[dict[str, Any]]:
        if self.run is None or self.quarantine is None:
            return []
        first = self.quarantine.first
        return [
            {"table": str(table), "lines": lines, "first_line": first[table]}
            for table, lines in sorted(self.run.put_aside.items())
        ]

    def _changes(self) -> list[dict[str, Any]]:
        if self.run is None or self.contract is None:
            return []
        stored = {table.stream for table in self.run.committed}
        return [
            {
                "table": f"{self._about['tap']}.{stream}",
                "stored": stream in stored,
                "change": change.change,
                "column": change.column,
                "before": change.before,
                "after": change.after,
                "words": str(change),
            }
            for stream, changes in sorted(self.contract.changes.items())
            for change in changes
        ]

    def _versions(self) -> list[dict[str, Any]]:
        return [
            {
                "table": str(table),
                "version": version.number,
                "transaction": version.transaction,
                "rows": version.rows,
                "fingerprint": version.fingerprint,
            }
            for table, version in self.versions
        ]

    def _events(self, error: BaseException | None) -> Iterator[tuple[str, dict[str, Any]]]:
        if changes := self._changes():
            yield "schema_changed", {"changes": changes}
        if rejected := self._rejected():
            yield "lines_rejected", {"lines": self._progress.refused, "tables": rejected}
        if versions := self._versions():
            yield "version_frozen", {"versions": versions}
        if error is not None:
            yield "run_failed", {"error": _error(error)}

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, ensure_ascii=False, indent=1)
        beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
        try:
            beside.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
            beside.replace(path)
        except OSError as error:
            self._logger.warning("cannot write summary_file %s: %s", path, error.strerror)
            beside.unlink(missing_ok=True)


def make_way(said: object) -> None:
    """Delete the summary of an earlier run, before anything can end this one.

    Args:
        said: The setting; what is no text is refused elsewhere.

    Raises:
        UsageError: No summary can be written there.
    """
    if not said or not isinstance(said, str):
        return
    path = Path(said)
    try:
        if path.is_file():
            path.unlink()
        elif path.exists():  # a pipe, too: the run would hang at its end until somebody reads
            raise UsageError(f"summary_file {path} exists, and is not a file: name another")
        elif not path.parent.is_dir():
            raise UsageError(f"summary_file {path} is in a folder that does not exist")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"summary_file {path} cannot be written: {reason}") from error


def _error(error: BaseException | None) -> dict[str, Any] | None:
    if error is None:
        return None
    if isinstance(error, SingerlakeError):
        message = redacted(str(error))
        return {"kind": error.kind, "message": message, "exit_code": error.exit_code}
    if isinstance(error, (MappingError, ConfigurationError)):
        message = redacted(str(error))
        return {"kind": UsageError.kind, "message": message, "exit_code": UsageError.exit_code}
    # Others' words may hold anything; they are in the log.
    return {"kind": "unexpected", "message": type(error).__name__, "exit_code": 1}


def _hook(said: str, logger: logging.Logger) -> Hook:
    from target_singerlake.hook import Hook  # late: few runs have one

    return Hook(said, logger)
