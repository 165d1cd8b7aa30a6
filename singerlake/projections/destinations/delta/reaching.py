"""How deltalake reaches a bucket: our settings in its words."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.storage.options import StoreOptions


def storage_options(uri: str, options: StoreOptions) -> dict[str, str] | None:
    """Say how a place is reached; what the settings leave open, boto3 finds.

    Args:
        uri: The place; folders need nothing.
        options: The settings.

    Raises:
        UsageError: See :func:`check`.
    """
    if not uri.startswith("s3://"):
        return None
    check(uri, options)
    from singerlake.storage.s3.connection import resolved

    found = resolved(options)
    by_customer = found.sse_customer_key is not None
    said = {
        "AWS_ACCESS_KEY_ID": found.access_key_id,
        "AWS_SECRET_ACCESS_KEY": found.secret_access_key,
        "AWS_SESSION_TOKEN": found.session_token,
        "AWS_REGION": found.region,
        "AWS_ENDPOINT_URL": found.endpoint_url,
        "AWS_ALLOW_HTTP": _true((found.endpoint_url or "").startswith("http:")),
        "AWS_CONDITIONAL_PUT": "etag",
        "AWS_SERVER_SIDE_ENCRYPTION": "sse-c" if by_customer else found.sse,
        "AWS_SSE_KMS_KEY_ID": found.sse_kms_key_id,
        "AWS_SSE_CUSTOMER_KEY_BASE64": found.sse_customer_key,
        "AWS_REQUEST_PAYER": _true(found.requester_pays),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": _true(found.addressing_style == "virtual"),
        "PROXY_URL": found.proxy,
    }
    return {name: value for name, value in said.items() if value is not None}


def check(uri: str, options: StoreOptions) -> None:
    """Make sure that nothing is asked of a bucket which deltalake cannot be told.

    Args:
        uri: The place.
        options: The settings.

    Raises:
        UsageError: deltalake has no such setting, and would go without.
    """
    said = [name for name in ("acl", "ca_bundle") if getattr(options, name) is not None]
    if said and uri.startswith("s3://"):
        raise UsageError(
            f"deltalake, which writes the log of Delta tables, is not told of {', '.join(said)}: "
            "leave that out, or publish in another format"
        )


def _true(is_so: bool) -> str | None:
    return "true" if is_so else None
