"""target-singerlake: Singer messages into a lake."""

from __future__ import annotations

import enum
import functools
import logging
import os
import sys
from collections import Counter
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, ClassVar

from singer_sdk import Target, metrics
from singer_sdk.exceptions import ConfigurationError, MappingError
from singer_sdk.helpers.capabilities import (
    CapabilitiesEnum,
    PluginCapabilities,
    TargetCapabilities,
)

from singerlake.errors import SingerlakeError, StoreError, UsageError
from singerlake.format.log import SchemaEntry
from singerlake.lake import Lake
from singerlake.log import repeats
from singerlake.plugins.plugin import LakePlugin
from singerlake.plugins.settings import lake_uri
from singerlake.quantities import count
from singerlake.safe_text import guard_stderr
from singerlake.storage.options import from_settings
from target_singerlake import freezing, job, lost_columns, quarantine, settings
from target_singerlake.batches.late import LateBatches
from target_singerlake.contract import Contract
from target_singerlake.intake import Intake
from target_singerlake.interrupts import Interrupts
from target_singerlake.mapped_streams import MappedStreams
from target_singerlake.misfits import Warnings
from target_singerlake.progress import Progress
from target_singerlake.quarantine import Quarantine
from target_singerlake.reader import ChunkReader
from target_singerlake.run import Run
from target_singerlake.streams import Streams
from target_singerlake.summary import Summary, make_way
from target_singerlake.validation import Validator

if TYPE_CHECKING:
    from singer_sdk.mapper import PluginMapper
    from singer_sdk.sinks import Sink

    from target_singerlake.batches.intake import BatchIntake

# The SDK's mapper and sinks, which only runs with a map, flattening or added metadata need.
#
# To import them takes a tenth of the target's start-up.

_SETTINGS = (
    "stream_maps",
    "stream_map_config",
    "faker_config",
    "flattening_enabled",
    "flattening_max_depth",
    "flattening_max_key_length",
    "flattening_separator",
)
"""What the mapper reads, and may find fault with."""


class LateMaps(Target):
    """A target whose mapper is made when it is asked for, unless settings speak of it."""

    def get_sink_class(self, stream_name: str) -> type[Sink]:  # noqa: ARG002
        """Return what adds the SDK's metadata."""
        from target_singerlake.metadata_sink import MetadataSink

        return MetadataSink

    def setup_mapper(self) -> None:
        """Make the mapper where something is wanted of it: what is wrong is said at once."""
        if any(self.config.get(name) is not None for name in _SETTINGS):
            super().setup_mapper()

    @property
    def mapper(self) -> PluginMapper:
        """The SDK's mapper."""
        if self._mapper is None:
            super().setup_mapper()
        assert self._mapper is not None, "just made"  # noqa: S101
        return self._mapper

    @mapper.setter
    def mapper(self, mapper: PluginMapper) -> None:
        self._mapper = mapper


logger = logging.getLogger("target-singerlake")


class _Metric(enum.Enum):
    """Metrics that the SDK has not."""

    DELETION_COUNT = "deletion_count"


class TargetSingerlake(LakePlugin, LateMaps):
    """Keeps every Singer message in a lake of versioned tables."""

    name = "target-singerlake"
    package_name = "singerlake"
    config_jsonschema: ClassVar[dict[str, Any]] = settings.SETTINGS.to_dict()
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.BATCH,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    def __init__(self, **kwargs: Any) -> None:
        self._interrupts = Interrupts()
        kwargs["message_reader"] = ChunkReader(self._interrupts.interruptible)
        super().__init__(**kwargs)
        self._progress = Progress(logger)
        self._warnings = Warnings()
        self._run: Run | None = None
        self._summary: Summary | None = None
        self._passed_over: set[tuple[str, str, str]] = set()
        self._intake: Intake | None = None
        self._report: job.Report | None = None

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """Add the SDK's own settings, but for those that mean nothing here."""
        super().append_builtin_config(config_jsonschema)
        for name in ("load_method", "batch_size_rows", "process_activate_version_messages"):
            config_jsonschema["properties"].pop(name, None)

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        make_way(self._config.get("summary_file"))
        return super()._validate_config(raise_errors=raise_errors)

    def process_lines(self, file_input: IO[str] | None) -> Counter[str]:  # type: ignore[misc]
        """Take all input. Final in the SDK, whose way is one dictionary for each line.

        Raises:
            InputError: A line cannot be accepted.
            SingerlakeError: The lake refused.
        """
        intake = self._intake = self._begin()
        try:
            for data in self.message_reader.chunks(file_input):  # type: ignore[attr-defined]
                intake.feed(data)
                del data
        except BaseException as error:
            self._end_early(error)
            raise
        return intake.counts

    def process_endofpipe(self) -> None:
        """Commit what is left, let the last STATE out, and freeze versions if asked to."""
        assert self._run is not None, "process_lines comes first"  # noqa: S101
        run = self._run
        try:
            run.commit()
        except BaseException as error:
            self._end_early(error)
            raise
        self._run = None
        try:
            run.close()
            self._progress.summary(len(run.committed) - len(run.put_aside))
            self._measure(run)
            self._say_repeats(run)
            self._say_values(run)
            self._freeze(run)
            self._say_refused(run)
        except BaseException as error:
            self._note(run, error)
            raise
        else:
            self._note(run, None)
        finally:
            self._interrupts.over()  # last: a note may hang on a store that is gone

    def _freeze(self, run: Run) -> None:
        """Freeze versions of what was committed, if asked to."""
        assert self._summary is not None, "process_lines comes first"  # noqa: S101
        as_one = self.config["new_lake_version"]
        if (as_one or self.config["new_version"]) and run.committed:
            freeze = freezing.freeze_as_one if as_one else freezing.freeze_tables
            with self._interrupts.unlimited():
                freeze(
                    run.lake,
                    run.committed,
                    freezing.engine_choice(self.config),
                    logger,
                    self._interrupts.check,
                    self._summary.frozen,
                )

    def _note(self, run: Run, error: BaseException | None) -> None:
        """Let the lake's file say how the run ended, and whoever wants to be told."""
        if self._report is not None:
            outcome = job.SUCCEEDED if error is None else job.FAILED
            rows = self._progress.stored_rows
            self._report.note(run.lake, outcome, rows, len(run.committed) - len(run.put_aside))
        if self._summary is not None:
            self._summary.end(error)

    def _measure(self, run: Run) -> None:
        """Log what was stored of each stream as the SDK's sinks do."""
        for table, done in sorted(run.committed.items()):
            tags: dict[str, Any] = {
                metrics.Tag.STREAM: table.stream,
                metrics.Tag.PID: os.getpid(),
            }
            counts: dict[Any, int] = {metrics.Metric.RECORD_COUNT: done.rows}
            if done.deletions:
                counts[_Metric.DELETION_COUNT] = done.deletions
            for name, number in counts.items():
                metrics.log(self.metrics_logger, metrics.Point("counter", name, number, tags))

    def _say_repeats(self, run: Run) -> None:
        """Say of tables without a key that they grow by their own size with each sync.

        A long log is read for this. What was stored is committed, whether that works or not.
        """
        assert self._intake is not None, "process_lines comes first"  # noqa: S101
        for table, snapshot in sorted(run.snapshots.items()):
            if table.stream in self._intake.incremental:
                continue
            try:
                repeated = repeats.find(snapshot)
            except SingerlakeError as error:
                logger.info("%s: what earlier syncs brought cannot be read: %s", table, error)
                continue
            if repeated:
                logger.warning(
                    "%s: %s. If each sync brings the whole table, its rows are stored once per "
                    "sync: give the stream a key (key_properties, or __key_properties__ in "
                    "stream_maps), have the tap send only what is new, or use one that sends "
                    "ACTIVATE_VERSION",
                    table,
                    repeated,
                )

    def _say_values(self, run: Run) -> None:
        """Say which values were taken as something else, and which no query can read."""
        if run.files.missed:
            logger.warning(
                "%s that records name %s not there; by the setting missing_files, %s",
                count(run.files.missed, "file"),
                "was" if run.files.missed == 1 else "were",
                {"null": "the rows have null instead", "keep": "the rows are as they came"}[
                    self.config["missing_files"]
                ],
            )
        if mended := self._progress.mended:
            logger.warning(
                "NaN, infinities and lone surrogates, which are not JSON, were in %s %s; by the "
                "setting non_finite, each is stored as %s",
                f"{mended:,}",
                "record" if mended == 1 else "records",
                {"null": "null", "string": "its spelling"}[self.config["non_finite"]],
            )
        odd = self._warnings.words(settings.tap_id(self.config), run.shown)
        for warning in (*odd, *lost_columns.words(run.lost_columns())):
            logger.warning("%s", warning)
        for table, left_out in sorted(run.left_out.counts.items()):
            logger.warning(
                "%s of %s dropped, because of keys on its suppression list",
                count(left_out, "record"),
                table,
            )

    def _say_refused(self, run: Run) -> None:
        """Say last, where a schedule's log is looked at first, that not all lines were taken."""
        refused = self._summary.quarantine if self._summary is not None else None
        if refused is not None and run.put_aside:
            kept = (
                f"{count(lines, 'line')} in {table} (the first is line {refused.first[table]:,})"
                for table, lines in sorted(run.put_aside.items())
            )
            logger.warning(
                "some lines were rejected and quarantined: %s; see them with: singerlake rejected "
                "TABLE",
                ", ".join(kept),
            )

    def _begin(self) -> Intake:
        summary = self._summary = Summary(self.config, logger, self._progress)
        try:
            return self._begun(summary)
        except BaseException as error:
            summary.end(error)
            raise

    def _begun(self, summary: Summary) -> Intake:
        options = settings.run_options(self.config, self._interrupts.check)
        summary.about(lake_uri(self.config), options.tap_id, options.write.metadata)
        configured = job.changes_in_settings(self.config.get("annotations"), options.tap_id)
        this_job = job.find(self.config.get("job_url"), os.environ)
        self._report = job.Report(options.tap_id, this_job, configured, logger)
        if self.config["new_version"] or self.config["new_lake_version"]:
            freezing.engine_choice(self.config)  # a Spark that is asked for and cannot start
        lake = Lake.open(lake_uri(self.config), from_settings(self.config), create=True)
        run = Run(
            lake,
            options,
            emit=_emit,
            progress=self._progress,
            check=self._interrupts.check,
            done=self._interrupts.progress,
        )
        self._run = summary.run = run
        patterns = self.config.get("schema_changes") or {}
        summary.contract = Contract(lake, options.tap_id, patterns, logger, watched=summary.wanted)
        if self.config["invalid_records"] == quarantine.QUARANTINE:
            summary.quarantine = Quarantine(run, options.tap_id, self.config["max_invalid"])
        summary.mapped = MappedStreams(self, run, self._validator)
        streams = Streams(run, summary.mapped, self._validator)
        batches = self._batches(run, streams, summary)
        how = self.config["non_finite"]
        return Intake(
            run, streams, summary.mapped, batches, self._progress, how, summary.quarantine
        )

    def _batches(self, run: Run, streams: Streams, summary: Summary) -> LateBatches:
        def make() -> BatchIntake:
            from target_singerlake.batches.clean_up import CleanUp
            from target_singerlake.batches.intake import BatchIntake
            from target_singerlake.batches.roots import Roots

            assert summary.mapped is not None, "made just before"  # noqa: S101
            roots = Roots.of(self.config, lake_uri(self.config))
            clean_up = CleanUp(self.config["batch_clean_up"], logger)
            run.after_commits(clean_up.committed)
            return BatchIntake(
                run,
                streams,
                summary.mapped,
                roots,
                clean_up,
                self._progress,
                self._interrupts.check,
                self.config["non_finite"],
                summary.quarantine,
                self.config["batch_file_bytes"],
            )

        return LateBatches(self.config, make)

    def _end_early(self, error: BaseException) -> None:
        """End, and say of values what the next run will not: what is committed comes no more."""
        run, self._run = self._run, None
        try:
            if run is not None:
                run.close()
                if run.committed:
                    self._say_values(run)
                    self._say_refused(run)
                self._note(run, error)
        finally:
            self._interrupts.over()  # last: each of these may hang on a store that is gone

    def _validator(self, stream: str, schema: dict[str, Any], keys: list[str]) -> Validator:
        assert self._run is not None, "there is no line before the run"  # noqa: S101
        entry = SchemaEntry(schema, keys)
        if self.config["invalid_records"] == quarantine.QUARANTINE:
            quarantine.check_name(stream, entry)
        if self._summary is not None and self._summary.contract is not None:
            self._summary.contract.check(stream, entry)
        bound = self._run.overlays.bound(stream, entry)
        return Validator(
            stream,
            bound.schema,
            bound.key_properties,
            records=self.config.get("validate_records", True),
            formats=self.config["validate_formats"],
            passed_over=functools.partial(self._say_passed_over, stream),
            check_values=self.config["check_values"],
            noted=self._warnings.noted,
            retyped=lambda: self._run.retyped(stream) if self._run is not None else (),
        )

    def _say_passed_over(self, stream: str, keyword: str, argument: str) -> None:
        """Say once for a stream and what a keyword says that it is not checked."""
        if (stream, keyword, argument) not in self._passed_over:
            self._passed_over.add((stream, keyword, argument))
            logger.warning(
                "the schema of stream %r has a %s that JSON Schema does not know, %r: "
                "it is ignored, and records are not checked for it",
                stream,
                keyword,
                argument[:80],
            )

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """End at the next safe point, where the SDK would drain and put out STATE."""
        self._interrupts.handle(signum, frame)


def _emit(value: bytes) -> None:
    if sys.stdout is None:  # it was closed when the process began
        raise _nobody_took_it("it is closed")
    binary = getattr(sys.stdout, "buffer", None)
    try:
        if binary is None:
            sys.stdout.write(value.decode("utf-8") + "\n")
        else:
            # As bytes: what the console can spell must not decide whether a STATE goes out.
            binary.write(value + b"\n")
        sys.stdout.flush()
    except OSError as error:
        raise _nobody_took_it(error.strerror) from error


def _nobody_took_it(reason: str | None) -> StoreError:
    return StoreError(
        f"everything is committed, but STATE could not be written to standard output: {reason}; "
        "the next run will send the same records again"
    )


def main() -> None:
    """Run the command line; one plain line for what is the user's to mend."""
    guard_stderr()
    try:
        TargetSingerlake.cli()
    except SingerlakeError as error:
        _fail(error, error.exit_code)
    except (MappingError, ConfigurationError) as error:
        _fail(error, UsageError.exit_code)


def _fail(error: Exception, exit_code: int) -> None:
    logger.error("%s", error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # What nobody takes Python would write once more at its end, and exit with 120 over it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
