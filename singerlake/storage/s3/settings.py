"""How a lake on S3 is named and reached, checked before anything is sent."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.credentials import Credentials

from singerlake.errors import UsageError
from singerlake.safe_text import remember_key_id, remember_secrets
from singerlake.storage.keys import prefix_of
from singerlake.storage.options import StoreOptions

_ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse")
_ACLS = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
)
_STYLES = ("auto", "path", "virtual")
_KEY_BYTES = 32
_SIGNED = re.compile(
    r"\?(?:.*&)?(?:X-Amz-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|sig)=",
    re.IGNORECASE | re.DOTALL,
)
"""A presigned address; any other ? may be a part of a prefix, as lakes have had."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def check(options: StoreOptions) -> None:
    """Refuse settings that cannot work, without repeating a secret.

    Raises:
        UsageError: They are not complete, or not fit to be sent.
    """
    named = {
        "aws_access_key_id": options.access_key_id,
        "aws_secret_access_key": options.secret_access_key,
        "aws_session_token": options.session_token,
    }
    for name, value in named.items():
        # Such a value would go into a header, where boto3's error message quotes it whole.
        if value is not None and (not value.isprintable() or " " in value or not value):
            raise UsageError(f"{name} is empty, or has a space or line break in it: set it again")
    if (options.access_key_id is None) != (options.secret_access_key is None):
        raise UsageError("aws_access_key_id and aws_secret_access_key go together: set both")
    if options.session_token is not None and options.access_key_id is None:
        raise UsageError("aws_session_token needs aws_access_key_id and aws_secret_access_key")
    endpoint = options.endpoint_url
    if endpoint is not None:
        if "@" in endpoint:
            raise UsageError("aws_endpoint_url must not hold a user or password")
        if not re.match(r"https?://[^/]", endpoint):
            raise UsageError(f"aws_endpoint_url {endpoint!r} must begin with http:// or https://")
    _check_writing(options)
    _check_way(options)


def _check_writing(options: StoreOptions) -> None:
    """Refuse what cannot be asked for objects.

    Raises:
        UsageError: It cannot.
    """
    for name, value, known in (
        ("aws_sse", options.sse, _ENCRYPTIONS),
        ("aws_acl", options.acl, _ACLS),
        ("aws_addressing_style", options.addressing_style, _STYLES),
    ):
        if value is not None and value not in known:
            raise UsageError(f"{name} is {value!r}: it is one of {', '.join(known)}")
    if options.sse_kms_key_id is not None and not str(options.sse).startswith("aws:kms"):
        raise UsageError("aws_sse_kms_key_id needs aws_sse to be aws:kms or aws:kms:dsse")
    if options.sse_customer_key is not None:
        if options.sse is not None:
            raise UsageError("aws_sse_customer_key goes without aws_sse: leave one of them out")
        customer_key(options)


def customer_key(options: StoreOptions) -> bytes:
    """Return the caller's own key for encryption.

    Raises:
        UsageError: It is none.
    """
    try:
        key = base64.b64decode(options.sse_customer_key or "", validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UsageError(
            f"aws_sse_customer_key is not {_KEY_BYTES} bytes in Base64: make one with: "
            "openssl rand -base64 32"
        )
    return key


def _check_way(options: StoreOptions) -> None:
    """Refuse ways to the service that lead nowhere.

    Raises:
        UsageError: One does.
    """
    if options.proxy is not None and not re.match(r"https?://[^/]", options.proxy):
        raise UsageError("aws_proxy must begin with http:// or https://")
    if options.ca_bundle is not None and not Path(options.ca_bundle).is_file():
        raise UsageError(f"aws_ca_bundle names no file: {options.ca_bundle!r}")
    for name, number in (
        ("aws_connect_timeout", options.connect_timeout),
        ("aws_read_timeout", options.read_timeout),
        ("aws_max_attempts", options.max_attempts),
    ):
        if number is not None and not number > 0:
            raise UsageError(f"{name} is {number!r}: it must be more than 0")


def hide(session: Any, options: StoreOptions) -> None:
    """Let no message and no log show the credentials that a boto3 session uses.

    Temporary ones that boto3 renews are not asked for here; logs hide them by their names.
    """
    credentials = None
    with suppress(Exception):  # who uses the session will say it
        credentials = session.get_credentials()
    remember_key_id(options.access_key_id)
    password = urlsplit(options.proxy or "").password
    secrets = [options.secret_access_key, options.session_token, options.sse_customer_key]
    remember_secrets([*secrets, *([password, unquote(password)] if password else [])])
    if credentials is not None and type(credentials) is Credentials:
        remember_key_id(credentials.access_key)
        remember_secrets([credentials.secret_key, credentials.token])


def split(uri: str, what: str = "a lake") -> tuple[str, str]:
    """Bucket and prefix (without slashes at its ends) of ``s3://bucket/prefix``.

    Args:
        uri: The URI.
        what: What lies there, for messages.

    Raises:
        UsageError: It is not of this form.
    """
    bucket, _, prefix = uri.partition("://")[2].partition("/")
    if not _BUCKET.fullmatch(bucket):
        # Not repeated: it may be an attempt to give credentials.
        raise UsageError(
            f"{what} on S3 is named s3://bucket/prefix, and this bucket is not a valid bucket "
            "name; credentials belong in the settings"
        )
    if _SIGNED.search(prefix):
        raise UsageError(
            "the part after the ? of the lake's address is a signature: a lake on S3 is named "
            "s3://bucket/prefix; credentials belong in the settings"
        )
    return bucket, prefix_of(prefix)
