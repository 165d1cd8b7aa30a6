"""The settings that tap and target have in common: where the lake is, and how to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.storage.opening import default_uri, in_project
from singerlake.storage.options import StoreOptions

LAKE = th.Property(
    "lake",
    th.StringType,
    title="Lake",
    description=(
        "Where the lake is: a folder, or s3://bucket/prefix. Default: SINGERLAKE_LAKE, else ./lake."
    ),
    examples=["./lake", "s3://bucket/prefix"],
)
AWS = (
    th.Property(
        "aws_access_key_id",
        th.StringType,
        secret=True,
        title="AWS access key ID",
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
)


def lake_uri(config: Mapping[str, Any]) -> str:
    """Find where the lake is: by the setting, else the environment, else the default."""
    lake = config.get("lake")
    return in_project(str(lake)) if lake else default_uri()


def store_options(config: Mapping[str, Any]) -> StoreOptions:
    """Collect how to reach S3. An empty setting counts as none: Meltano passes unset ones so."""
    return StoreOptions(
        access_key_id=config.get("aws_access_key_id") or None,
        secret_access_key=config.get("aws_secret_access_key") or None,
        session_token=config.get("aws_session_token") or None,
        profile=config.get("aws_profile") or None,
        region=config.get("aws_region") or None,
        endpoint_url=config.get("aws_endpoint_url") or None,
    )
