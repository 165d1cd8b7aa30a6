"""Facts about the way to a bucket: whose credentials, which endpoint, what time it is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.config import Config

from singerlake.safe_text import redacted
from singerlake.storage.options import StoreOptions, from_environment
from singerlake.storage.s3 import settings
from singerlake.storage.s3.connection import connect
from singerlake.storage.s3.whole_answers import clock_ahead

_SOURCES = {
    "explicit": "the settings",
    "env": "the environment (AWS_ACCESS_KEY_ID …)",
    "shared-credentials-file": "the shared credentials file",
    "config-file": "the AWS configuration file",
    "sso": "single sign-on (aws sso login)",
    "login": "aws login",
    "assume-role": "a role that a profile names",
    "assume-role-with-web-identity": "a web identity (a pod's service account, or the like)",
    "container-role": "the container's role",
    "iam-role": "the machine's role",
    "custom-process": "a program that a profile names",
}
"""boto3's word for where credentials came from, and ours."""


@dataclass(frozen=True)
class S3Facts:
    """The facts about the way to a bucket. Contains no secret.

    Attributes:
        credentials: Where they come from; None where there are none.
        endpoint: The address that requests go to.
        clock_ahead: Seconds by which this machine's clock is ahead of the store's, to about
            one second; None where the store did not answer, or did not say the time.
    """

    credentials: str | None
    endpoint: str
    clock_ahead: float | None


def look(uri: str, options: StoreOptions | None = None) -> S3Facts:
    """Find out how a bucket would be reached, and ask it for the time.

    Args:
        uri: ``s3://bucket/prefix``.

    Raises:
        UsageError: The URI or the options cannot be used.
    """
    options = from_environment() if options is None else options
    bucket, _ = settings.split(uri)
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=5,
        read_timeout=10,
        s3={"addressing_style": "path"},
    )
    session, client = connect(options, config)
    endpoint = redacted(client.meta.endpoint_url)
    return S3Facts(_source(session), endpoint, _clock_ahead(client, bucket))


def _source(session: Any) -> str | None:
    try:
        credentials = session.get_credentials()
    except Exception:  # noqa: BLE001  # of boto3, or of a file or program that it asks
        return None
    if credentials is None:
        return None
    return _SOURCES.get(credentials.method, str(credentials.method))


def _clock_ahead(client: Any, bucket: str) -> float | None:
    """By the date of whatever answer comes, be it a refusal."""
    with suppress(Exception):
        client.head_bucket(Bucket=bucket)
    return clock_ahead(client)
