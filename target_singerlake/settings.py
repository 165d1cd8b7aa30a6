"""The target's settings, as ``--about`` shows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.errors import UsageError
from singerlake.format import block, names, tap_state
from singerlake.plugins.settings import BATCH_S3, LAKE, STORES
from singerlake.storage.options import from_settings
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import WriteOptions
from target_singerlake import contract, files, non_finite, quarantine
from target_singerlake.batches import late as batches
from target_singerlake.run import RunOptions

MAX_BLOCK_ROWS = 1_000_000
RUN_ID_VARIABLES = (
    "MELTANO_RUN_ID",
    "AIRFLOW_CTX_DAG_RUN_ID",
    "DAGSTER_RUN_ID",
    "PREFECT__FLOW_RUN_ID",
    "GITHUB_RUN_ID",
    "CI_PIPELINE_ID",  # GitLab
)
"""In which orchestrators say which run this is. Meltano comes first: others may have started it."""

_TARGET = [
    th.Property(
        "tap_id",
        th.StringType,
        title="Tap id",
        description=(
            "Whose streams these are; the first part of a table's name. "
            "Default: MELTANO_EXTRACTOR_NAME, which `meltano run` sets."
        ),
    ),
    th.Property(
        "validate_formats",
        th.BooleanType,
        default=False,
        title="Validate formats",
        description="Whether validation also checks string formats such as date-time.",
    ),
    th.Property(
        "non_finite",
        th.StringType(allowed_values=[non_finite.FAIL, non_finite.NULL, non_finite.STRING]),
        default=non_finite.FAIL,
        title="What is no JSON",
        description=(
            "What to do with NaN, Infinity and lone surrogates in records, which are not JSON: "
            "`fail`, store `null`, or store their spelling as a `string`. The schema must allow "
            "that, too."
        ),
    ),
    th.Property(
        "check_values",
        th.BooleanType,
        default=False,
        title="Check values",
        description=(
            "Whether a record is refused when a column cannot hold one of its values, so that "
            "no query could read it; by default the summary of the run warns of such values. "
            "In the key they are always refused."
        ),
    ),
    th.Property(
        "invalid_records",
        th.StringType(allowed_values=[quarantine.FAIL, quarantine.QUARANTINE]),
        default=quarantine.FAIL,
        title="Invalid records",
        description=(
            "What to do with lines that are refused: `fail`, which ends the run, or `quarantine`, "
            "which keeps each as it came in a table of the same name with `__rejected` behind it, "
            "with its number and the reason, and goes on."
        ),
    ),
    th.Property(
        "max_invalid",
        th.IntegerType(minimum=0),
        default=1000,
        title="Most invalid lines",
        description=(
            "How many lines a run may put aside with `invalid_records: quarantine`; one more ends "
            "it, as `fail` does."
        ),
    ),
    th.Property(
        "schema_changes",
        th.ObjectType(
            additional_properties=th.StringType(
                allowed_values=[contract.EVOLVE, contract.WARN, contract.FAIL]
            )
        ),
        title="Schema changes",
        description=(
            "What to do where a stream's schema differs from the one that its table has, by "
            "patterns of streams with * and ?, the first that matches: `evolve`, the default, "
            "takes it, `warn` says what differs, and `fail` ends the run before it is stored. "
            'For example {"orders*": "fail", "*": "warn"}.'
        ),
    ),
    th.Property(
        "batch_roots",
        th.ArrayType(th.StringType),
        title="Batch roots",
        description=(
            "Where the files of BATCH messages may lie: folders, and s3://bucket/prefix, gs://… or "
            "az://…. Default: the folder that the run is started in, the system's temporary "
            "folder, the lake's bucket."
        ),
        examples=[["/data/batches", "s3://bucket/batches"]],
    ),
    th.Property(
        "batch_clean_up",
        th.BooleanType,
        default=False,
        title="Clean up batches",
        description=(
            "Whether the files of BATCH messages are deleted once what they hold is committed and "
            "the STATE is out."
        ),
    ),
    th.Property(
        "batch_file_bytes",
        th.IntegerType(minimum=1),
        default=batches.BYTES,
        title="Bytes of a batch file",
        description="What a file of a BATCH message may have, once it is inflated.",
    ),
    BATCH_S3,
    th.Property(
        "block_rows",
        th.IntegerType(minimum=1, maximum=MAX_BLOCK_ROWS),
        default=block.MAX_ROWS,
        title="Rows in a block",
        description="A block is a gzip member, the smallest piece that can be read on its own.",
    ),
    th.Property(
        "file_bytes",
        th.IntegerType(minimum=1),
        default=FILE_BYTES,
        title="Bytes in a file",
        description="Compressed size at which the next file is begun.",
    ),
    th.Property(
        "commit_bytes",
        th.IntegerType(minimum=1),
        default=1024**3,
        title="Bytes before a commit",
        description="A STATE message commits once this much input has gathered since the last.",
    ),
    th.Property(
        "commit_minutes",
        th.NumberType(minimum=0),
        default=5,
        title="Minutes before a commit",
        description="A STATE message commits once this much time has passed since the last.",
    ),
    th.Property(
        "atomic",
        th.BooleanType,
        default=False,
        title="Atomic",
        description="Commit only at the end: a whole run is one transaction a table, or none.",
    ),
    th.Property(
        "new_version",
        th.BooleanType,
        default=False,
        title="New version",
        description=(
            "After a run that succeeded, freeze a new version of every table that it changed and "
            "whose state has no version yet. Large tables, and tables with constraints, are read "
            "by Spark, which needs Java 17 or later."
        ),
    ),
    th.Property(
        "new_lake_version",
        th.BooleanType,
        default=False,
        title="New lake version",
        description=(
            "After a run that succeeded, freeze the tables that it changed as one lake version, "
            "with a new version of each."
        ),
    ),
    th.Property(
        "engine",
        th.StringType(allowed_values=["auto", "local", "spark"]),
        title="Engine",
        description=(
            "What reads the rows of tables that are frozen: the target's own process (local), "
            "Spark, or by size (auto). Default: the environment's SINGERLAKE_ENGINE, otherwise "
            "auto."
        ),
    ),
    th.Property(
        "file_roots",
        th.ArrayType(th.StringType),
        title="File roots",
        description=(
            "Folders and s3://bucket/prefix below which the files lie that records name "
            "(`format: singer.file`). Default: the folder that the run starts in; `[]` is none."
        ),
    ),
    th.Property(
        "file_http",
        th.BooleanType,
        default=False,
        title="Files from the web",
        description=(
            "Whether files that records name are also taken from http:// and https://, of public "
            "addresses only."
        ),
    ),
    th.Property(
        "file_http_max_bytes",
        th.IntegerType(minimum=1),
        default=files.HTTP_BYTES,
        title="Most bytes from the web",
        description="The most that a file taken from the web may have.",
    ),
    th.Property(
        "missing_files",
        th.StringType(allowed_values=list(files.MISSING)),
        default=files.FAIL,
        title="Missing files",
        description=(
            "What becomes of a record whose file is not there: `fail` ends the run, `null` puts "
            "null in the file's place, and `keep` stores the record as it came, without the file."
        ),
    ),
    th.Property(
        "lock_wait_seconds",
        th.NumberType(minimum=0),
        default=300,
        title="Lock wait",
        description=(
            "How long to wait for another writer of the same stream and schema. Only a run that "
            "waits for longer than `lock_stale_seconds` takes over the lock of one that died."
        ),
    ),
    th.Property(
        "lock_stale_seconds",
        th.NumberType(minimum=1),
        default=60,
        title="Lock stale time",
        description="A lock not refreshed for this long is taken over; its writer is gone.",
    ),
    th.Property(
        "metadata",
        th.ObjectType(additional_properties=True),
        title="Metadata",
        description=(
            "Anything to be kept with each transaction. A run_id in it is shown by `singerlake "
            "history`; without one, that of Meltano, Airflow, Dagster, Prefect, GitHub or GitLab "
            "is taken, if their variable is set."
        ),
    ),
    th.Property(
        "annotations",
        th.ObjectType(additional_properties=True),
        title="Annotations",
        description=(
            "What to say of the tap in the lake after a run that succeeded, as `singerlake "
            "annotate --from` takes it: owner, description, freshness, tables and so on."
        ),
    ),
    th.Property(
        "summary_file",
        th.StringType,
        title="Summary file",
        description=(
            "A file that says as JSON what the run did, written at its end, also of one that "
            "failed. One that is there before is deleted at the beginning."
        ),
    ),
    th.Property(
        "on_event",
        th.StringType,
        secret=True,
        title="On event",
        description=(
            "A command, or the address of a webhook (https://…), that gets a JSON object at the "
            "end of a run in which a schema changed, lines were put aside or a version was frozen, "
            "or that failed: on standard input, or as the body of a POST."
        ),
    ),
    th.Property(
        "job_url",
        th.StringType,
        title="Job URL",
        description=(
            "Where this run is seen; noted in the lake with its end and outcome. Default: what "
            "Airflow, Dagster and GitHub Actions say in their variables."
        ),
    ),
]
SETTINGS = th.PropertiesList(LAKE, *_TARGET, *STORES)


def tap_id(config: Mapping[str, Any]) -> str:
    """Find whose streams these are.

    Raises:
        UsageError: Nothing says.
        InvalidNameError: The id cannot be stored in a lake.
    """
    tap = config.get("tap_id") or os.environ.get("MELTANO_EXTRACTOR_NAME")
    if not tap:
        raise UsageError(
            "whose streams are these? Set tap_id (TARGET_SINGERLAKE_TAP_ID=tap-shop with "
            '--config ENV, or {"tap_id": "tap-shop"} in a --config file); `meltano run` sets it '
            "by itself"
        )
    names.tap_folder(tap)
    return str(tap)


def metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what each transaction keeps: the setting, and the id of the orchestrator's run.

    A ``run_id`` in the setting wins.

    Raises:
        UsageError: The setting has a name that the target writes itself.
    """
    given = dict(config.get("metadata") or {})
    for name in tap_state.NAMES:
        if name in given:
            raise UsageError(
                f"the setting metadata has {name!r}, which the target writes itself: rename it"
            )
    for name in RUN_ID_VARIABLES:
        if run := os.environ.get(name):
            return {"run_id": run, **given}
    return given


def run_options(config: Mapping[str, Any], check: Callable[[], None]) -> RunOptions:
    """Collect how the run behaves; ``check`` may end it while it waits for a lock."""
    return RunOptions(
        tap_id=tap_id(config),
        block_rows=config["block_rows"],
        file_bytes=config["file_bytes"],
        commit_bytes=config["commit_bytes"],
        commit_seconds=60.0 * config["commit_minutes"],
        atomic=config["atomic"],
        files=files.FileOptions(
            roots=files.HERE if config.get("file_roots") is None else tuple(config["file_roots"]),
            http=config["file_http"],
            http_max_bytes=config["file_http_max_bytes"],
            missing=config["missing_files"],
            validate=config["validate_records"],
            store=from_settings(config),
        ),
        write=WriteOptions(
            lock_wait_seconds=config["lock_wait_seconds"],
            lock_stale_seconds=config["lock_stale_seconds"],
            metadata=metadata(config),
            while_waiting=check,
        ),
    )
