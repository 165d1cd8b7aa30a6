"""The tap: a lake's tables as Singer streams."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, ClassVar, NoReturn

from singer_sdk import Tap
from singer_sdk.helpers.capabilities import (
    CapabilitiesEnum,
    PluginCapabilities,
    TapCapabilities,
)
from singer_sdk.singerlib import Catalog

from singerlake.arguments import check_files
from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import Catalogue
from singerlake.lake import Lake
from tap_singerlake import settings
from tap_singerlake.output import BorderStateWriter, EarlyEndError, LineWriter, Output
from tap_singerlake.schemas import plain
from tap_singerlake.selection import Choice, choose
from tap_singerlake.stream import LakeStream


class TapSingerlake(Tap):
    """Reads the streams of a lake that target-singerlake wrote."""

    name = "tap-singerlake"
    package_name = "singerlake"
    dynamic_catalog = True
    config_jsonschema: ClassVar[dict[str, Any]] = settings.SETTINGS
    message_writer_class = LineWriter
    # All that the SDK offers but BATCH: files of its own would be slower than the lake's.
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        TapCapabilities.CATALOG,
        TapCapabilities.STATE,
        TapCapabilities.DISCOVER,
        TapCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    def __init__(self, **arguments: Any) -> None:
        self.output = Output()  # first, for a signal may come while the rest is built
        self.records_read = 0
        self.streams_read = 0
        super().__init__(**{**arguments, "catalog": _walkable(arguments.get("catalog"))})
        # In the place of one that a caller passes: blocks go out as bytes, beside any writer.
        writer = LineWriter()
        writer.output = self.output
        self.message_writer = writer
        self._state_writer = BorderStateWriter(writer)

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over the bookmarks of an earlier run.

        Raises:
            UsageError: This is no state.
        """
        bookmarks = state.get("bookmarks", {}) if isinstance(state, dict) else None
        if not isinstance(bookmarks, dict) or not all(
            isinstance(bookmark, dict) for bookmark in bookmarks.values()
        ):
            raise UsageError(
                'the state is none of a tap\'s: it must look like {"bookmarks": {"stream": {…}}}'
            )
        super().load_state(state)

    def discover_streams(self) -> Sequence[LakeStream]:
        """The tables that the settings select.

        Their schemas come from the tap's catalogue where it has them, which spares reading a
        manifest a table; a version that is asked for may have another schema.
        """
        lake = Lake.open(settings.lake_uri(self.config), settings.store_options(self.config))
        catalogues: dict[str, dict[str, SchemaEntry]] = {}
        streams = []
        for choice in choose(lake, self.config):
            tap, known = choice.table.tap, None
            if choice.version is None:
                if tap not in catalogues:
                    catalogues[tap] = _schemas(lake.catalogue(tap))
                known = catalogues[tap].get(choice.table.stream)
            if stream := self._stream(lake, choice, known):
                streams.append(stream)
        missing = set(self.input_catalog or ()) - {stream.name for stream in streams}
        if missing:
            self.logger.warning(
                "the catalog has streams that the lake has not, or that the settings leave out: %s",
                ", ".join(sorted(missing)),
            )
        return streams

    def _stream(self, lake: Lake, choice: Choice, schema: SchemaEntry | None) -> LakeStream | None:
        table = lake.table(choice.table)
        if schema is not None:
            return LakeStream(self, table, choice.version, schema)
        try:
            head = table.snapshot()
        except NotFoundError as error:
            # A folder alone makes no table: its first sync has not committed yet.
            self.logger.warning("left out %s: %s", choice.table, error)
            return None
        version = choice.version
        at = head if version is None else head.at(head.version(version).transaction)
        return LakeStream(self, table, version, at.schema, head)

    def run_discovery(self) -> str:
        """Write the catalog to standard output.

        Returns:
            The same text.
        """
        text = self.catalog_json_text
        self.output.write(text.encode() + b"\n")
        return text

    def sync_all(self) -> None:  # type: ignore[misc]
        """Put out all selected streams.

        Final in the SDK, and called here as it is; what is added is a last STATE behind all
        else, where nothing was new, and the summary.
        """
        started = time.monotonic()
        super().sync_all()
        if self.state:
            self.state_writer.write_last(self.state)
        seconds = max(time.monotonic() - started, 1e-6)
        megabytes = self.output.bytes / 1e6
        self.logger.info(
            "Read %s records of %d stream%s: %.1f MB in %.1f s (%.0f MB/s)",
            f"{self.records_read:,}",
            self.streams_read,
            "" if self.streams_read == 1 else "s",
            megabytes,
            seconds,
            megabytes / seconds,
        )

    @property
    def state_writer(self) -> BorderStateWriter:
        """The writer of all STATE lines."""
        writer = self._state_writer
        assert isinstance(writer, BorderStateWriter)  # noqa: S101  # set at the end of __init__
        return writer

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End quickly, between two lines.

        The SDK's own writes a STATE here, which could land inside a line and says nothing
        that the STATE of the last transaction has not said; and it ends with success.
        """
        self.output.interrupt(signum)


def _walkable(catalog: Any) -> Any:
    """The user's catalog with schemas that the SDK can take: see :func:`plain`."""
    if not isinstance(catalog, dict) or isinstance(catalog, Catalog):
        return catalog
    streams = [
        {**stream, "schema": plain(stream.get("schema") or {})}
        for stream in catalog.get("streams", [])
    ]
    return {**catalog, "streams": streams}


def _schemas(catalogue: Catalogue | None) -> dict[str, SchemaEntry]:
    streams = catalogue.streams if catalogue else []
    return {s.tap_stream_id: SchemaEntry(s.schema, s.key_properties) for s in streams}


def main() -> None:
    """Run the tap from the command line."""
    try:
        files = ["--config", "--state", "--catalog"]
        check_files(sys.argv, files, TapSingerlake.config_jsonschema["properties"])
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
