"""Clients of Azure Blob Storage, as the settings and Azure's own variables want them."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singerlake.errors import UsageError
from singerlake.safe_text import remember_secrets
from singerlake.storage.object_store import header_values
from singerlake.storage.options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import AzureConfig

_EMULATOR = (
    "AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2"
    "UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"
)
"""What ``UseDevelopmentStorage=true`` stands for; the key is every emulator's, and published."""
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY")
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_SENT = (
    "AZURE_TENANT_ID",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TOKEN",
)
"""What obstore reads itself where nothing else is set."""
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


@dataclass(frozen=True)
class Account:
    """How an account is reached.

    Attributes:
        name: Its name.
        endpoint: Its address.
        key: Its key.
        signature: A shared access signature.
        source: Where the credentials come from, for people; None where no key and no signature
            is given.
    """

    name: str
    endpoint: str
    key: str | None = field(default=None, repr=False)
    signature: str | None = field(default=None, repr=False)
    source: str | None = None


def account(options: StoreOptions) -> Account:
    """Find out which account is meant, and how it is reached.

    Args:
        options: As the settings say; what they leave open, Azure's variables do.

    Raises:
        UsageError: No account is named, or a setting cannot be used.
    """
    given = options.azure_storage_connection_string
    inherited = None if given or _has_own(options) else _env("AZURE_STORAGE_CONNECTION_STRING")
    parts = _parts(given or inherited or "")
    name = options.azure_storage_account_name or parts.get("accountname") or _env(*_ACCOUNTS)
    if not name:
        raise UsageError(
            "az://container/prefix does not contain the account: set azure_storage_account_name "
            "(or AZURE_STORAGE_ACCOUNT_NAME)"
        )
    key = options.azure_storage_account_key or parts.get("accountkey")
    signature = options.azure_storage_sas_token or parts.get("sharedaccesssignature")
    origin = "the settings" if given or key or signature else None
    if inherited:
        origin = "the environment (AZURE_STORAGE_CONNECTION_STRING)"
    if not (key or signature or _is_principal(options) or options.azure_anonymous):
        key = _env(*_KEYS)
        signature = None if key else _env(*_SIGNATURES)
        if key or signature:
            origin = "the environment (AZURE_STORAGE_ACCOUNT_KEY …)"
    address = options.azure_endpoint_url or parts.get("blobendpoint") or _env(*_ENDPOINTS)
    if not address:
        suffix = parts.get("endpointsuffix", "core.windows.net")
        address = f"https://{name}.blob.{suffix}"
    remember_secrets([key, signature, options.azure_client_secret])
    return Account(name, address.rstrip("/"), key, signature, origin)


def endpoint(options: StoreOptions) -> str:
    """Return the address that requests go to.

    Raises:
        UsageError: No account is named.
    """
    return account(options).endpoint


def _has_own(options: StoreOptions) -> bool:
    """Whether the settings say themselves which account is meant, or with what."""
    return bool(
        options.azure_storage_account_name
        or options.azure_storage_account_key
        or options.azure_storage_sas_token
    )


def _is_principal(options: StoreOptions) -> bool:
    return options.azure_client_secret is not None


def _env(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _parts(text: str) -> dict[str, str]:
    """The members of a connection string, by their names in small letters."""
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    parts = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _parts(_EMULATOR)
    if text and "accountname" not in parts and "blobendpoint" not in parts:
        raise UsageError(
            "azure_storage_connection_string (or AZURE_STORAGE_CONNECTION_STRING) names no "
            "account: copy it again, whole, and in quotes"
        )
    return parts


def check(options: StoreOptions) -> None:
    """Refuse settings that cannot work, without repeating a secret.

    Raises:
        UsageError: One is not what it must be, or two say different things.
    """
    principal = (options.azure_tenant_id, options.azure_client_id, options.azure_client_secret)
    if options.azure_client_secret is not None and not all(principal):
        raise UsageError(
            "azure_client_secret goes with azure_tenant_id and azure_client_id: set all three"
        )
    said = [
        name
        for name in (
            "azure_storage_account_key",
            "azure_storage_sas_token",
            "azure_storage_connection_string",
            "azure_client_secret",
            "azure_anonymous",
        )
        if getattr(options, name)
    ]
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} are different credentials: leave all but one out")
    reached = account(options)
    header_values.check(
        {
            "azure_storage_account_name (or wherever the account is set)": reached.name,
            "azure_storage_sas_token (or wherever the signature is set)": reached.signature,
            "azure_tenant_id": options.azure_tenant_id,
            "azure_client_id": options.azure_client_id,
            "azure_client_secret": options.azure_client_secret,
        }
    )
    if reached.source is None and not said:
        header_values.check({name: os.environ.get(name) for name in _SENT})
    key = reached.key
    try:
        base64.b64decode(key or "", validate=True)
    except ValueError:
        raise UsageError(
            "azure_storage_account_key is not Base64, as the account's keys are: copy it again"
        ) from None


def client_of(options: StoreOptions, container: str) -> Callable[..., Any]:
    """Return what makes a client, given how requests are made.

    Args:
        options: As the settings say.
        container: Its name.
    """
    from obstore.store import AzureStore

    reached = account(options)
    config: AzureConfig = {"account_name": reached.name, "endpoint": reached.endpoint}
    # The kind is said, lest something else that the environment holds goes first.
    if reached.key is not None:
        config["account_key"], config["credential_type"] = reached.key, "access_key"
    elif reached.signature is not None:
        config["sas_key"] = reached.signature.lstrip("?")
        config["credential_type"] = "sas_token"
    elif _is_principal(options):
        config["credential_type"] = "client_secret"
    if options.azure_tenant_id is not None:
        config["tenant_id"] = options.azure_tenant_id
    if options.azure_client_id is not None:
        config["client_id"] = options.azure_client_id
    if options.azure_client_secret is not None:
        config["client_secret"] = options.azure_client_secret
    if options.azure_anonymous:
        config["skip_signature"] = True
    return lambda **how: AzureStore(container, config=config, **how)


def suspect(options: StoreOptions) -> str:
    """Say which setting or variable obstore can only mean when it takes no configuration."""
    if account(options).signature is not None:
        return "azure_storage_sas_token, or wherever the signature is set (it begins with sv=)"
    return "the settings that begin with azure_, and the environment"


def source(options: StoreOptions) -> str | None:
    """Say where credentials come from; None where they can only be a machine's.

    Raises:
        UsageError: No account is named, or a setting cannot be used.
    """
    if options.azure_anonymous:
        return "none: none are sent"
    if _is_principal(options):
        return "the settings (a service principal)"
    if origin := account(options).source:
        return origin
    for name, what in (
        ("AZURE_CLIENT_SECRET", "a service principal"),
        ("AZURE_STORAGE_CLIENT_SECRET", "a service principal"),
        ("AZURE_FEDERATED_TOKEN_FILE", "a workload's identity"),
        ("AZURE_STORAGE_TOKEN", "a token"),
        ("AZURE_USE_AZURE_CLI", "az login"),
    ):
        if os.environ.get(name):
            return f"the environment ({name}: {what})"
    return None
