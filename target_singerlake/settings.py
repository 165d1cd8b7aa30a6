"""The target's settings, as ``--about`` shows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.errors import UsageError
from singerlake.format import block, names
from singerlake.storage import StoreOptions, in_project
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import WriteOptions
from target_singerlake import non_finite
from target_singerlake.run import RunOptions

DEFAULT_LAKE = "./lake"
MAX_BLOCK_ROWS = 1_000_000

_LAKE = th.Property(
    "lake",
    th.StringType,
    title="Lake",
    description=(
        "Where the lake lies: a folder, or s3://bucket/prefix. "
        "Default: SINGERLAKE_LAKE, else ./lake."
    ),
)
_AWS = [
    th.Property(
        "aws_access_key_id",
        th.StringType,
        secret=True,
        title="AWS access key id",
        description="Access key for S3. Default: the usual AWS chain (environment, profile, role).",
    ),
    th.Property(
        "aws_secret_access_key",
        th.StringType,
        secret=True,
        title="AWS secret access key",
        description="The secret to aws_access_key_id.",
    ),
    th.Property(
        "aws_session_token",
        th.StringType,
        secret=True,
        title="AWS session token",
        description="For temporary credentials.",
    ),
    th.Property(
        "aws_profile",
        th.StringType,
        title="AWS profile",
        description="A profile of the AWS configuration files.",
    ),
    th.Property(
        "aws_region",
        th.StringType,
        title="AWS region",
        description="The region of the bucket.",
    ),
    th.Property(
        "aws_endpoint_url",
        th.StringType,
        title="AWS endpoint URL",
        description="Another S3-compatible service, for example http://localhost:9000.",
    ),
]
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
            "What becomes of NaN, Infinity and lone surrogates in records, which JSON has not: "
            "`fail`, `null`, or their spelling as a `string`. The schema must allow that too."
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
        "block_rows",
        th.IntegerType(minimum=1, maximum=MAX_BLOCK_ROWS),
        default=block.MAX_ROWS,
        title="Rows in a block",
        description="A block is a gzip member, the smallest piece that is read on its own.",
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
            "After a run that succeeded, freeze a new version of every table that it changed "
            "(a Spark job; needs Java 17 or later)."
        ),
    ),
    th.Property(
        "lock_wait_seconds",
        th.NumberType(minimum=0),
        default=300,
        title="Lock wait",
        description="How long to wait for another writer of the same stream and schema.",
    ),
    th.Property(
        "lock_stale_seconds",
        th.NumberType(minimum=1),
        default=60,
        title="Lock stale time",
        description="A lock that stood still this long is taken over; its writer is gone.",
    ),
    th.Property(
        "metadata",
        th.ObjectType(additional_properties=True),
        title="Metadata",
        description="Anything to be kept with each transaction, for example a run id.",
    ),
]
SETTINGS = th.PropertiesList(_LAKE, *_TARGET, *_AWS)


def lake_uri(config: Mapping[str, Any]) -> str:
    """Where the lake lies."""
    uri = config.get("lake") or os.environ.get("SINGERLAKE_LAKE") or DEFAULT_LAKE
    return in_project(str(uri))


def tap_id(config: Mapping[str, Any]) -> str:
    """Whose streams these are.

    Raises:
        UsageError: Nothing says.
        InvalidNameError: The id has no place in a lake.
    """
    found = config.get("tap_id") or os.environ.get("MELTANO_EXTRACTOR_NAME")
    if not found:
        raise UsageError(
            "whose streams are these? Set tap_id (TARGET_SINGERLAKE_TAP_ID=tap-shop with "
            '--config ENV, or {"tap_id": "tap-shop"} in a --config file); `meltano run` sets it '
            "by itself"
        )
    names.tap_folder(found)
    return str(found)


def store_options(config: Mapping[str, Any]) -> StoreOptions:
    """How to reach S3."""
    return StoreOptions(
        access_key_id=config.get("aws_access_key_id"),
        secret_access_key=config.get("aws_secret_access_key"),
        session_token=config.get("aws_session_token"),
        profile=config.get("aws_profile"),
        region=config.get("aws_region"),
        endpoint_url=config.get("aws_endpoint_url"),
    )


def run_options(config: Mapping[str, Any], check: Callable[[], None]) -> RunOptions:
    """How the run behaves; ``check`` may end it while it waits for a lock."""
    return RunOptions(
        tap_id=tap_id(config),
        block_rows=config["block_rows"],
        file_bytes=config["file_bytes"],
        commit_bytes=config["commit_bytes"],
        commit_seconds=60.0 * config["commit_minutes"],
        atomic=config["atomic"],
        write=WriteOptions(
            lock_wait_seconds=config["lock_wait_seconds"],
            lock_stale_seconds=config["lock_stale_seconds"],
            metadata=config.get("metadata") or {},
            while_waiting=check,
        ),
    )
