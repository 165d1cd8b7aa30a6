"""The settings that tap and target have in common: where the lake is, and how to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.errors import UsageError
from singerlake.nearest import offer
from singerlake.storage.opening import default_uri, in_project
from singerlake.storage.options import SECRETS, SETTINGS, StoreOptions, from_settings

LAKE = th.Property(
    "lake",
    th.StringType,
    title="Lake",
    description=(
        "The lake: a folder, s3://bucket/prefix, gs://bucket/prefix or "
        "az://container/prefix. Default: the variable SINGERLAKE_LAKE, otherwise ./lake."
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
        description="The secret of aws_access_key_id.",
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
            "Server-side encryption: AES256, aws:kms or aws:kms:dsse. Default: the bucket's."
        ),
    ),
    th.Property(
        "aws_sse_kms_key_id",
        th.StringType,
        title="KMS key ID",
        description="The KMS key for aws:kms. Default: the account's.",
    ),
    th.Property(
        "aws_sse_customer_key",
        th.StringType,
        secret=True,
        title="Customer's key",
        description=(
            "A customer-provided encryption key (SSE-C), 32 bytes in Base64. S3 does not store "
            "it: without it, nothing can be read again."
        ),
    ),
    th.Property(
        "aws_acl",
        th.StringType,
        title="Canned ACL",
        description="A canned ACL for written objects, such as bucket-owner-full-control.",
    ),
    th.Property(
        "aws_requester_pays",
        th.BooleanType,
        title="Requester pays",
        description="Pay for requests to a bucket with requester pays. Default: false.",
    ),
    th.Property(
        "aws_addressing_style",
        th.StringType,
        title="Addressing style",
        description="`path` or `virtual`. Default: path with aws_endpoint_url, otherwise auto.",
    ),
    th.Property(
        "aws_ca_bundle",
        th.StringType,
        title="CA bundle",
        description="A file of trusted certificates, instead of the usual ones.",
    ),
    th.Property(
        "aws_proxy",
        th.StringType,
        secret=True,
        title="Proxy",
        description="A proxy's URL. Default: the variables HTTPS_PROXY and NO_PROXY.",
    ),
    th.Property(
        "aws_connect_timeout",
        th.NumberType,
        title="Connect timeout",
        description="Seconds. Default: 10.",
    ),
    th.Property(
        "aws_read_timeout",
        th.NumberType,
        title="Read timeout",
        description="Seconds without a byte of an answer. Default: 60.",
    ),
    th.Property(
        "aws_max_attempts",
        th.IntegerType,
        title="Attempts",
        description="Attempts per request, the first one included. Default: 5.",
    ),
)
GOOGLE = (
    th.Property(
        "gcs_service_account_path",
        th.StringType,
        title="Service account's file",
        description=(
            "A file with a service account's key. Default: Google's chain "
            "(GOOGLE_APPLICATION_CREDENTIALS, gcloud's login, the machine's service account)."
        ),
    ),
    th.Property(
        "gcs_service_account_key",
        th.StringType,
        secret=True,
        title="Service account's key",
        description="The content of such a file, as JSON.",
    ),
    th.Property(
        "gcs_token",
        th.StringType,
        secret=True,
        title="Google access token",
        description="An access token instead of a key. It is not renewed.",
    ),
    th.Property(
        "gcs_endpoint_url",
        th.StringType,
        title="Google endpoint URL",
        description="Another address, such as an emulator's.",
    ),
    th.Property(
        "gcs_anonymous",
        th.BooleanType,
        title="Google without credentials",
        description="Send no credentials, to read a public bucket. Default: false.",
    ),
)
AZURE = (
    th.Property(
        "azure_storage_account_name",
        th.StringType,
        title="Azure storage account",
        description="The storage account. Default: AZURE_STORAGE_ACCOUNT_NAME.",
    ),
    th.Property(
        "azure_storage_account_key",
        th.StringType,
        secret=True,
        title="Azure account key",
        description=(
            "The account's key. Default: Azure's variables (AZURE_STORAGE_ACCOUNT_KEY, "
            "AZURE_CLIENT_SECRET, workload identity), otherwise the machine's identity."
        ),
    ),
    th.Property(
        "azure_storage_sas_token",
        th.StringType,
        secret=True,
        title="Azure shared access signature",
        description="A shared access signature, instead of the key.",
    ),
    th.Property(
        "azure_storage_connection_string",
        th.StringType,
        secret=True,
        title="Azure connection string",
        description="Account, key and address in one, as in the portal.",
    ),
    th.Property(
        "azure_tenant_id",
        th.StringType,
        title="Azure tenant",
        description="The tenant of a service principal.",
    ),
    th.Property(
        "azure_client_id",
        th.StringType,
        title="Azure client ID",
        description="The service principal's ID, with azure_tenant_id and azure_client_secret.",
    ),
    th.Property(
        "azure_client_secret",
        th.StringType,
        secret=True,
        title="Azure client secret",
        description="The service principal's secret.",
    ),
    th.Property(
        "azure_endpoint_url",
        th.StringType,
        title="Azure endpoint URL",
        description="Another address, such as an emulator's.",
    ),
    th.Property(
        "azure_anonymous",
        th.BooleanType,
        title="Azure without credentials",
        description="Send no credentials, to read a public container. Default: false.",
    ),
)
STORES = (*AWS, *GOOGLE, *AZURE)
"""How lakes are reached that lie in no folder."""


BATCH_S3 = th.Property(
    "batch_s3",
    th.ObjectType(additional_properties=True),
    title="S3 of batches",
    secret=True,
    description=(
        "Access to the buckets of batch files, with the same names: aws_access_key_id, "
        "aws_endpoint_url and so on. Default: the lake's, service by service."
    ),
)


def batch_options(config: Mapping[str, Any]) -> StoreOptions:
    """Collect how buckets of batch files are reached: as the lake is, unless told else.

    What is told of one service leaves the others as the lake's settings have them.

    Raises:
        UsageError: There is no such setting, or it cannot be used.
    """
    own = config.get("batch_s3")
    if not own:
        return from_settings(config)
    for name in sorted(own):
        if name not in SETTINGS:
            raise UsageError(f"batch_s3 has no setting {name!r}: {offer(name, SETTINGS)}")
        if name in SECRETS and own[name] is not None and not isinstance(own[name], str):
            raise UsageError(f"{name} in batch_s3 is not text: set it again, in quotes")
    told = {_service(name) for name in own}
    others = {name: config.get(name) for name in SETTINGS if _service(name) not in told}
    return from_settings({**others, **own})


def _service(setting: str) -> str:
    return setting.partition("_")[0]


def lake_uri(config: Mapping[str, Any]) -> str:
    """Find where the lake is: by the setting, else the environment, else the default."""
    lake = config.get("lake")
    return in_project(str(lake)) if lake else default_uri()
