"""The target's settings, as ``--about`` shows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.errors import UsageError
from singerlake.format import block, names, tap_state
from singerlake.log.staging import FILE_BYTES
from singerlake.log.writer import WriteOptions
from singerlake.plugins.settings import BATCH_S3, LAKE, STORES
from singerlake.storage.options import from_settings
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
            "The tap's id, the first part of table names. Default: MELTANO_EXTRACTOR_NAME, "
            "which `meltano run` sets."
        ),
    ),
    th.Property(
        "validate_formats",
        th.BooleanType,
        default=False,
        title="Validate formats",
        description="Also validate string formats such as date-time.",
    ),
    th.Property(
        "non_finite",
        th.StringType(allowed_values=[non_finite.FAIL, non_finite.NULL, non_finite.STRING]),
        default=non_finite.FAIL,
        title="What is not valid JSON",
        description=(
            "NaN, Infinity and lone surrogates, which JSON does not allow: `fail`, store "
            "`null`, or store their spelling as a `string`. The schema must allow the result."
        ),
    ),
    th.Property(
        "check_values",
        th.BooleanType,
        default=False,
        title="Check values",
        description=(
            "Reject records with a value that its column cannot hold. By default, the run's "
            "summary warns of such values, and queries of the column fail. A key value of the "
            "wrong type is always rejected."
        ),
    ),
    th.Property(
        "invalid_records",
        th.StringType(allowed_values=[quarantine.FAIL, quarantine.QUARANTINE]),
        default=quarantine.FAIL,
        title="Invalid records",
        description=(
            "Invalid lines: `fail` ends the run; `quarantine` stores each line with its number "
            "and the reason in the dead-letter table STREAM__rejected, and continues."
        ),
    ),
    th.Property(
        "max_invalid",
        th.IntegerType(minimum=0),
        default=1000,
        title="Most invalid lines",
        description="How many lines a run may quarantine. One more ends the run.",
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
            "If a stream's schema has changed: `evolve` (default) accepts it, `warn` also logs "
            "the differences, `fail` ends the run. By stream or pattern; the first match "
            'applies: {"orders*": "fail", "*": "warn"}.'
        ),
    ),
    th.Property(
        "batch_roots",
        th.ArrayType(th.StringType),
        title="Batch roots",
        description=(
            "Folders and prefixes (s3://bucket/prefix, gs://…, az://…) from which files of "
            "BATCH messages are accepted. Default: the working directory, the system's "
            "temporary folder and the lake's bucket."
        ),
        examples=[["/data/batches", "s3://bucket/batches"]],
    ),
    th.Property(
        "batch_clean_up",
        th.BooleanType,
        default=False,
        title="Clean up batches",
        description=(
            "Delete the files of BATCH messages once their records are committed and STATE was "
            "emitted."
        ),
    ),
    th.Property(
        "batch_file_bytes",
        th.IntegerType(minimum=1),
        default=batches.BYTES,
        title="Bytes of a batch file",
        description=(
            "The maximum uncompressed size of a file of a BATCH message. The default is 16 GiB."
        ),
    ),
    BATCH_S3,
    th.Property(
        "block_rows",
        th.IntegerType(minimum=1, maximum=MAX_BLOCK_ROWS),
        default=block.MAX_ROWS,
        title="Rows in a block",
        description=(
            "Rows per block. A block is a gzip member, the smallest unit that can be read alone."
        ),
    ),
    th.Property(
        "file_bytes",
        th.IntegerType(minimum=1),
        default=FILE_BYTES,
        title="Bytes in a file",
        description="The compressed size at which a new file begins. The default is 128 MiB.",
    ),
    th.Property(
        "commit_bytes",
        th.IntegerType(minimum=1),
        default=1024**3,
        title="Bytes before a commit",
        description="Commit at the first STATE message after this much input.",
    ),
    th.Property(
        "commit_minutes",
        th.NumberType(minimum=0),
        default=5,
        title="Minutes before a commit",
        description="Commit at the first STATE message after this many minutes.",
    ),
    th.Property(
        "atomic",
        th.BooleanType,
        default=False,
        title="Atomic",
        description="Commit only at the end: a run is one transaction per table, or none.",
    ),
    th.Property(
        "new_version",
        th.BooleanType,
        default=False,
        title="New version",
        description=(
            "After a successful run, freeze every table that it changed, unless the result has a "
            "version already. Large tables need Spark (Java 17 or later); tables with constraints "
            "need Spark or the extra sql."
        ),
    ),
    th.Property(
        "new_lake_version",
        th.BooleanType,
        default=False,
        title="New lake version",
        description=(
            "After a successful run, freeze the tables that it changed together, as one lake "
            "version."
        ),
    ),
    th.Property(
        "engine",
        th.StringType(allowed_values=["auto", "local", "spark"]),
        title="Engine",
        description=(
            "What freezes tables: the target's own process (local), Spark, or by size (auto). "
            "Default: the variable SINGERLAKE_ENGINE, otherwise auto."
        ),
    ),
    th.Property(
        "file_roots",
        th.ArrayType(th.StringType),
        title="File roots",
        description=(
            "Folders and prefixes (s3://bucket/prefix) from which files in records (`format: "
            "singer.file`) are accepted. Default: the working directory; `[]` allows none."
        ),
    ),
    th.Property(
        "file_http",
        th.BooleanType,
        default=False,
        title="Files from the web",
        description="Also accept files from http:// and https://, at public addresses only.",
    ),
    th.Property(
        "file_http_max_bytes",
        th.IntegerType(minimum=1),
        default=files.HTTP_BYTES,
        title="Most bytes from the web",
        description="The maximum size of a file from the web.",
    ),
    th.Property(
        "missing_files",
        th.StringType(allowed_values=list(files.MISSING)),
        default=files.FAIL,
        title="Missing files",
        description=(
            "If a file of a record does not exist: `fail` ends the run, `null` stores null "
            "instead, `keep` stores the record as it is, without the file."
        ),
    ),
    th.Property(
        "lock_wait_seconds",
        th.NumberType(minimum=0),
        default=300,
        title="Lock wait",
        description=(
            "How long to wait for another writer of the same stream and schema. A run that waits "
            "longer than `lock_stale_seconds` takes over a dead writer's lock."
        ),
    ),
    th.Property(
        "lock_stale_seconds",
        th.NumberType(minimum=1),
        default=60,
        title="Lock stale time",
        description="A lock that was not refreshed for this long can be taken over.",
    ),
    th.Property(
        "metadata",
        th.ObjectType(additional_properties=True),
        title="Metadata",
        description=(
            "Kept with each transaction. `singerlake history` shows its run_id. Default: that of "
            "Meltano, Airflow, Dagster, Prefect, GitHub or GitLab."
        ),
    ),
    th.Property(
        "annotations",
        th.ObjectType(additional_properties=True),
        title="Annotations",
        description=(
            "Annotations of the tap to set after a successful run, as in `singerlake annotate "
            "--from`."
        ),
    ),
    th.Property(
        "summary_file",
        th.StringType,
        title="Summary file",
        description=(
            "Where to write a JSON summary at the end of a run, even a failed one. An existing "
            "file is deleted at the start."
        ),
    ),
    th.Property(
        "on_event",
        th.StringType,
        secret=True,
        title="On event",
        description=(
            "A command or webhook (https://…) that gets a JSON object, on standard input or by "
            "POST, when a run fails, changes a schema, quarantines lines or freezes a version."
        ),
    ),
    th.Property(
        "job_url",
        th.StringType,
        title="Job URL",
        description=(
            "A link to this run, recorded in the lake with its outcome. Default: that of Airflow, "
            "Dagster or GitHub Actions."
        ),
    ),
    th.Property(
        "validate_records",
        th.BooleanType,
        default=True,
        title="Validate records",
        description=(
            "Validate each record against its stream's schema. `false` checks only its key."
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
