"""The tap's settings, as ``--about`` shows them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.storage import StoreOptions, in_project

# "number" and not "integer": the SDK would take an environment variable for an integer and
# fail where it holds a label.
_VERSION: dict[str, Any] = {"type": ["string", "number", "null"]}

SETTINGS: dict[str, Any] = th.PropertiesList(
    th.Property(
        "lake",
        th.StringType,
        title="Lake",
        description=(
            "Where the lake is: a folder, or s3://bucket/prefix. "
            "Without it the environment variable SINGERLAKE_LAKE counts, then ./lake."
        ),
        examples=["./lake", "s3://bucket/prefix"],
    ),
    th.Property(
        "tap_id",
        th.StringType,
        title="Tap",
        description=(
            "Read the streams that this tap wrote. Needed where several taps of the lake have a "
            "stream of the same name."
        ),
    ),
    th.Property(
        "streams",
        th.ArrayType(th.StringType),
        title="Streams",
        description=(
            "Read only these streams: names, or patterns with * and ?. A number behind a name "
            "reads the table version of that number: orders.2"
        ),
        examples=[["orders", "customers.2", "web_*"]],
    ),
    th.Property(
        "table_version",
        th.CustomType(_VERSION),
        title="Table version",
        description=(
            "Read every selected stream as of its table version of this number or label. "
            "Without it all transactions are read."
        ),
    ),
    th.Property(
        "aws_access_key_id",
        th.StringType,
        secret=True,
        title="AWS access key ID",
        description="Access key for a lake on S3. Without it the usual AWS chain is used.",
    ),
    th.Property(
        "aws_secret_access_key",
        th.StringType,
        secret=True,
        title="AWS secret access key",
        description="The secret to the access key.",
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
        description="A profile of the AWS configuration to take credentials from.",
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
        title="S3 endpoint URL",
        description="The address of another S3-compatible service.",
    ),
).to_dict()


def lake_uri(config: Mapping[str, Any]) -> str:
    """Where the lake is: the setting, else the environment, else the default."""
    return in_project(config.get("lake") or os.environ.get("SINGERLAKE_LAKE") or "./lake")


def store_options(config: Mapping[str, Any]) -> StoreOptions:
    """How to reach S3. Empty settings count as not given, as Meltano passes them."""
    return StoreOptions(
        access_key_id=config.get("aws_access_key_id") or None,
        secret_access_key=config.get("aws_secret_access_key") or None,
        session_token=config.get("aws_session_token") or None,
        profile=config.get("aws_profile") or None,
        region=config.get("aws_region") or None,
        endpoint_url=config.get("aws_endpoint_url") or None,
    )


def table_version(config: Mapping[str, Any]) -> str | None:
    """The version that all streams are read at, by number or label."""
    value = config.get("table_version")
    return None if value is None or value == "" else str(value)
