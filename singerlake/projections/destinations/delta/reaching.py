"""How deltalake reaches a bucket: our settings in its words."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.storage.options import StoreOptions

_NOT_TOLD = {"s3": ("acl", "ca_bundle"), "gs": ("gcs_token",)}
"""Settings that deltalake has no word for, by the scheme of a place."""


def storage_options(uri: str, options: StoreOptions) -> dict[str, str] | None:
    """Say how a place is reached; what the settings leave open, boto3 finds.

    Args:
        uri: The place; folders need nothing.
        options: The settings.

    Raises:
        UsageError: See :func:`check`.
    """
    check(uri, options)
    if uri.startswith("gs://"):
        return _in_a_bucket_of_google(options)
    if uri.startswith("az://"):
        return _in_a_container_of_azure(options)
    if not uri.startswith("s3://"):
        return None
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


def _in_a_bucket_of_google(options: StoreOptions) -> dict[str, str]:
    from singerlake.storage.object_store import google

    address = google.endpoint(options)
    said = {
        "GOOGLE_SERVICE_ACCOUNT": options.gcs_service_account_path,
        "GOOGLE_SERVICE_ACCOUNT_KEY": options.gcs_service_account_key,
        "GOOGLE_BASE_URL": None if address == google.ENDPOINT else address,
        "GOOGLE_SKIP_SIGNATURE": _true(options.gcs_anonymous),
        "ALLOW_HTTP": _true(address.startswith("http:")),
    }
    return {name: value for name, value in said.items() if value is not None}


def _in_a_container_of_azure(options: StoreOptions) -> dict[str, str]:
    from singerlake.storage.object_store import azure

    account = azure.account(options)
    said = {
        "AZURE_STORAGE_ACCOUNT_NAME": account.name,
        "AZURE_STORAGE_ACCOUNT_KEY": account.key,
        "AZURE_STORAGE_SAS_KEY": account.signature,
        "AZURE_TENANT_ID": options.azure_tenant_id,
        "AZURE_CLIENT_ID": options.azure_client_id,
        "AZURE_CLIENT_SECRET": options.azure_client_secret,
        "AZURE_STORAGE_ENDPOINT": account.endpoint,
        "AZURE_SKIP_SIGNATURE": _true(options.azure_anonymous),
        "ALLOW_HTTP": _true(account.endpoint.startswith("http:")),
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
    unknown = _NOT_TOLD.get(uri.partition("://")[0], ())
    said = [name for name in unknown if getattr(options, name) is not None]
    if said:
        raise UsageError(
            f"deltalake, which writes the log of Delta tables, is not told of {', '.join(said)}: "
            "leave that out, or publish in another format"
        )


def _true(is_so: bool) -> str | None:
    return "true" if is_so else None
