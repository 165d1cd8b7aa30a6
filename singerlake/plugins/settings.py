"""The settings that tap and target have in common: where the lake is, and how to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.storage.opening import default_uri, in_project

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
