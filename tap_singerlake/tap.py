"""The tap: a lake's tables as Singer streams."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import IO, Any, ClassVar, NoReturn

import msgspec
from singer_sdk import Tap
from singer_sdk.helpers.capabilities import (
    CapabilitiesEnum,
    PluginCapabilities,
    TapCapabilities,
)
from singer_sdk.singerlib import Catalog

from singerlake import small_files
from singerlake.errors import (
    DataError,
    DroppedError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.format.annotations import ColumnEntry, TableEntry, TapEntry
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import Catalogue
from singerlake.lake import Lake
from singerlake.lineage import Told
from singerlake.plugins.arguments import parse_json
from singerlake.plugins.plugin import LakePlugin
from singerlake.plugins.settings import lake_uri
from singerlake.quantities import count, size
from singerlake.safe_text import guard_stderr
from singerlake.storage.options import from_settings
from tap_singerlake import settings
from tap_singerlake.batches import options_of
from tap_singerlake.given import catalog_of, state_of
from tap_singerlake.output import BorderStateWriter, EarlyEndError, LineWriter
from tap_singerlake.run import Run
from tap_singerlake.selection import Choice, choose
from tap_singerlake.stream import LakeStream


class TapSingerlake(LakePlugin, Tap):
    """Reads the streams of a lake that target-singerlake wrote."""

    name = "tap-singerlake"
    package_name = "singerlake"
    dynamic_catalog = True
    config_jsonschema: ClassVar[dict[str, Any]] = settings.SETTINGS
    message_writer_class = LineWriter
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        TapCapabilities.CATALOG,
        TapCapabilities.STATE,
        TapCapabilities.DISCOVER,
        TapCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.BATCH,
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    def __init__(self, **arguments: Any) -> None:
        self.run = Run()  # first, for a signal may come while the rest is built
        catalog = arguments.get("catalog")
        if isinstance(catalog, dict) and not isinstance(catalog, Catalog):
            arguments["catalog"] = catalog_of(catalog)
        super().__init__(**arguments)
        # Instead of one that a caller passes: blocks go out as bytes, beside any writer.
        self.message_writer = self.run.writer
        self._state_writer = self.run.state_writer

    @classmethod
    def invoke(
        cls, *, state: IO[str] | None = None, catalog: IO[str] | None = None, **options: Any
    ) -> None:
        """Run, once it is known that the files hold what they should."""
        super().invoke(
            state=_checked(state, "--state", state_of),
            catalog=_checked(catalog, "--catalog", catalog_of),
            **options,
        )

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over the bookmarks of an earlier run.

        Raises:
            UsageError: This is no state.
        """
        self._given_state = state_of(state)
        super().load_state(self._given_state)

    def discover_streams(self) -> Sequence[LakeStream]:
        """Find the tables that the settings select.

        Their schemas come from the tap's catalogue where it has them, which spares reading a
        manifest a table; a version that is asked for may have another schema.
        """
        lake = Lake.open(lake_uri(self.config), from_settings(self.config))
        catalogues: dict[str, dict[str, SchemaEntry]] = {}
        streams: list[LakeStream] = []
        there: set[str] = set()
        for choice in choose(lake, self.config):
            tap, known = choice.table.tap, None
            if choice.version is None:
                if tap not in catalogues:
                    catalogues[tap] = _schemas(lake.catalogue(tap))
                known = catalogues[tap].get(choice.table.stream)
            there.add(choice.table.stream)
            if stream := self._stream(lake, choice, known):
                streams.append(stream)
        missing = set(self.input_catalog or ()) - there
        if missing:
            self.logger.warning(
                "the catalog has streams that the lake lacks, or that the settings leave out: %s",
                ", ".join(sorted(missing)),
            )
        return streams

    def _stream(self, lake: Lake, choice: Choice, schema: SchemaEntry | None) -> LakeStream | None:
        table, lake_file = lake.table(choice.table), lake.annotations()
        rows = self.config.get("mode") == settings.ROWS
        if schema is not None:
            return LakeStream(
                self, self.run, table, choice.version, schema, rows=rows, lake_file=lake_file
            )
        try:
            head = table.snapshot()
        except DroppedError as error:
            if settings.lake_version(self.config) is not None:
                raise self._without(error) from error  # else it would pass for one without it
            asked = bool(self.config.get("streams"))
            level = logging.WARNING if asked else logging.INFO
            self.logger.log(level, "left out %s: %s", choice.table, error)
            return None
        except NotFoundError as error:
            # A folder alone makes no table: its first sync has not committed yet.
            self.logger.warning("left out %s: %s", choice.table, error)
            return None
        except DataError as error:
            if self._is_selected(choice.table.stream):
                self.run.damaged[choice.table] = error
            else:
                self.logger.warning("%s; the catalog does not select it", error)
            return None
        version = choice.version
        try:
            at = head if version is None else head.frozen_as(head.version(version))
        except NotFoundError as error:
            raise self._without(error) from error
        return LakeStream(
            self, self.run, table, version, at.schema, head, rows=rows, lake_file=lake_file
        )

    def _without(self, error: NotFoundError) -> NotFoundError:
        """Say how a lake version is read without a table that is gone."""
        if settings.lake_version(self.config) is None:
            return error
        return type(error)(
            f"{error}; to read the lake version without it, name the others in streams"
        )

    def _is_selected(self, stream: str) -> bool:
        """Whether the user wants a stream, by the SDK's rule; without a catalog all."""
        catalog = self.input_catalog
        if catalog is None:
            return True
        entry = catalog.get_stream(stream)
        return entry is not None and entry.metadata.resolve_selection().get((), True)

    @property
    def catalog_dict(self) -> dict[str, Any]:
        """The catalog, with what people say of the tables in each stream's metadata."""
        catalog: dict[str, Any] = super().catalog_dict
        streams = {s.tap_stream_id: s for s in self.streams.values() if isinstance(s, LakeStream)}
        for entry in catalog["streams"]:
            if (stream := streams.get(entry["tap_stream_id"])) is not None:
                add_annotations(entry, stream.annotations())
        return catalog

    def run_discovery(self) -> str:
        """Write the catalog to standard output.

        Returns:
            The same text.
        """
        text = self.catalog_json_text
        self.run.output.write(text.encode() + b"\n")
        self.run.report_damage()
        return text

    def sync_all(self) -> None:  # type: ignore[misc]
        """Put out all selected streams.

        Final in the SDK, and called here as it is; what is added is a last STATE behind all
        else, where nothing was new, and the summary.

        Raises:
            DamagedError: A table could not be read. The others are out, and the STATE stands for
                what is out whole.
        """
        started = time.monotonic()
        self.run.batches = options_of(self.config)
        self._doubt_state()
        self.run.all_streams = True
        self.run.lineage = Told(lake_uri(self.config), self._job_name(), "READ")
        try:
            super().sync_all()
        except BaseException as error:
            self.run.lineage.end(error)
            raise
        finally:
            self.run.all_streams = False
        self.run.lineage.end(next(iter(self.run.damaged.values()), None))
        if self.state and not self.run.damaged:
            self.state_writer.write_last(self.state)
        seconds = max(time.monotonic() - started, 1e-6)
        self.logger.info(
            "Read %s of %s: %s in %.1f s (%s/s)",
            count(self.run.records, "record"),
            count(self.run.streams, "stream"),
            size(self.run.output.bytes),
            seconds,
            size(self.run.output.bytes / seconds),
        )
        self.run.report_damage()

    def _job_name(self) -> str:
        """Name the tap as a job, for lineage."""
        tap = self.config.get("tap_id")
        return f"{self.name}.{tap}" if tap else self.name

    def _doubt_state(self) -> None:
        """Say it where a state was given that has nothing to say here."""
        bookmarks = self._given_state.get("bookmarks")
        if bookmarks is None:
            strange = bool(self._given_state)
        else:
            strange = bool(bookmarks) and self.streams.keys().isdisjoint(bookmarks)
        if strange:
            self.logger.warning(
                "the state has no bookmark for %s: everything is read from the beginning",
                ", ".join(list(self.streams)[:10]) or "any stream",
            )

    @property
    def state_writer(self) -> BorderStateWriter:
        """The writer of all STATE lines."""
        return self.run.state_writer

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End quickly, between two lines.

        The SDK's own writes a STATE here, which could land inside a line and says nothing
        that the STATE of the last transaction has not said; and it ends with success.
        """
        self.run.output.interrupt(signum)


def _schemas(catalogue: Catalogue | None) -> dict[str, SchemaEntry]:
    streams = catalogue.streams if catalogue else []
    return {s.tap_stream_id: SchemaEntry(s.schema, s.key_properties) for s in streams}


def _checked(file: IO[str] | None, option: str, shape: Callable[[Any], Any]) -> IO[str] | None:
    """Check that a file is JSON of the right shape, and hand it to the SDK to read once more."""
    if file is None:
        return None
    where = f"{option} {file.name}"
    try:
        data = small_files.read_open(file.buffer, where, "state or catalog")  # type: ignore[attr-defined]
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror}") from error
    try:
        content = parse_json(data, where)
    except UsageError as error:
        if data.count(b"\n") > 1 and b"STATE" in data:
            words = f"{error}; of several STATE messages, give the last: tail -n 1"
            raise UsageError(words) from error
        raise
    try:
        shape(content)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return io.StringIO(json.dumps(content))


def main() -> None:
    """Run the tap from the command line."""
    guard_stderr()
    try:
        TapSingerlake.cli()
    except SingerlakeError as error:
        _say(error)
        sys.exit(error.exit_code)
    except EarlyEndError as end:
        _leave(end.code)


def _say(error: SingerlakeError) -> None:
    sys.stderr.write(f"tap-singerlake: {' '.join(str(error).split())}\n")


def _leave(code: int) -> NoReturn:
    """Leave without waiting for threads that read ahead, and without flushing a closed pipe."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()


# What people say of a lake's tables, in the catalog that discovery puts out.

PREFIX = "singerlake."
"""Before the names in a catalog's metadata, which are all tools' together."""


def add_annotations(entry: dict[str, Any], entries: tuple[TapEntry, TableEntry]) -> None:
    """Put the annotations of a table and its columns into its catalog entry's metadata.

    Args:
        entry: A stream of a catalog; changed. Its schema stays as it is, for it is the tap's.
        entries: Its tap's and its own; what only the tap's says, holds.
    """
    tap, table = entries
    by_path = {tuple(one["breadcrumb"]): one["metadata"] for one in entry["metadata"]}
    if () in by_path:
        by_path[()].update(_members(table))
        owner = table.owner or tap.owner
        if owner:
            by_path[()][f"{PREFIX}owner"] = owner
        if tap.last_run is not None:
            by_path[()][f"{PREFIX}last-run"] = msgspec.to_builtins(tap.last_run)
    for name, column in table.columns.items():
        if (column_metadata := by_path.get(("properties", name))) is not None:
            column_metadata.update(_members(column))


def _members(entry: TableEntry | ColumnEntry) -> dict[str, Any]:
    members = msgspec.to_builtins(entry)
    members.pop("columns", None)
    return {PREFIX + name.replace("_", "-"): value for name, value in members.items()}
