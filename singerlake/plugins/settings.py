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
    th.Property(
        "aws_sse",
        th.StringType,
        title="Encryption",
        description=(
            "How S3 is to encrypt what is written: AES256, aws:kms or aws:kms:dsse. Default: as "
            "the bucket says."
        ),
    ),
    th.Property(
        "aws_sse_kms_key_id",
        th.StringType,
        title="KMS key ID",
        description="The key of KMS to encrypt by, with aws_sse aws:kms. Default: the account's.",
    ),
    th.Property(
        "aws_sse_customer_key",
        th.StringType,
        secret=True,
        title="Customer's key",
        description=(
            "A key of your own to encrypt by, 32 bytes in Base64, in place of aws_sse. S3 does not "
            "keep it: without it nothing can be read again."
        ),
    ),
    th.Property(
        "aws_acl",
        th.StringType,
        title="Canned ACL",
        description="A canned ACL for what is written, such as bucket-owner-full-control.",
    ),
    th.Property(
        "aws_requester_pays",
        th.BooleanType,
        title="Requester pays",
        description="Agree to pay for requests to a bucket whose owner does not. Default: false.",
    ),
    th.Property(
        "aws_addressing_style",
        th.StringType,
        title="Addressing style",
        description=(
            "Whether the bucket stands in the path (path) or in the host's name (virtual). "
            "Default: path with aws_endpoint_url, else auto."
        ),
    ),
    th.Property(
        "aws_ca_bundle",
        th.StringType,
        title="CA bundle",
        description="A file of certificates to trust, in place of the usual ones.",
    ),
    th.Property(
        "aws_proxy",
        th.StringType,
        secret=True,
        title="Proxy",
        description="A proxy's URL. Default: HTTPS_PROXY and NO_PROXY of the environment.",
    ),
    th.Property(
        "aws_connect_timeout",
        th.NumberType,
        title="Connect timeout",
        description="Seconds to wait for a connection. Default: 10.",
    ),
    th.Property(
        "aws_read_timeout",
        th.NumberType,
        title="Read timeout",
        description="Seconds of silence to stand in an answer. Default: 60.",
    ),
    th.Property(
        "aws_max_attempts",
        th.IntegerType,
        title="Attempts",
        description="How often a request is made that fails, the first time counted. Default: 5.",
    ),
)


def lake_uri(config: Mapping[str, Any]) -> str:
    """Find where the lake is: by the setting, else the environment, else the default."""
    lake = config.get("lake")
    return in_project(str(lake)) if lake else default_uri()
