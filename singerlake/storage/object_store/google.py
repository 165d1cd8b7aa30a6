"""Clients of Google Cloud Storage, as the settings and Google's own variables want them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.errors import UsageError
from singerlake.safe_text import remember_secrets
from singerlake.storage.object_store import header_values
from singerlake.storage.options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import GCSConfig

ENDPOINT = "https://storage.googleapis.com"
_KEY_VARIABLES = (
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
_BEARER = "GOOGLE_BEARER_TOKEN"
_APPLICATION = "GOOGLE_APPLICATION_CREDENTIALS"


def endpoint(options: StoreOptions) -> str:
    """Return the address that requests go to."""
    given = options.gcs_endpoint_url or os.environ.get("GOOGLE_BASE_URL")
    return (given or ENDPOINT).rstrip("/")


def check(options: StoreOptions) -> None:
    """Refuse settings that cannot work, without repeating a secret.

    Raises:
        UsageError: One is not what it must be, or two say different things.
    """
    said = [
        name
        for name in ("service_account_path", "service_account_key", "token", "anonymous")
        if getattr(options, f"gcs_{name}")
    ]
    if len(said) > 1:
        both = " and ".join(f"gcs_{name}" for name in said)
        raise UsageError(f"{both} are different credentials: leave all but one out")
    path = options.gcs_service_account_path
    if path is not None and not Path(path).expanduser().is_file():
        raise UsageError(f"gcs_service_account_path names no file: {path!r}")
    key = options.gcs_service_account_key
    remember_secrets([key, options.gcs_token])
    header_values.check({"gcs_token": options.gcs_token})
    if not said:
        header_values.check({_BEARER: os.environ.get(_BEARER)})
    if key is None:
        return
    try:
        remember_secrets([json.loads(key)["private_key"]])
    except (ValueError, TypeError, KeyError):
        raise UsageError(
            "gcs_service_account_key is not the JSON of a service account's key: set what the "
            "file holds, or its path as gcs_service_account_path"
        ) from None


def client_of(options: StoreOptions, bucket: str) -> Callable[..., Any]:
    """Return what makes a client, given how requests are made.

    Args:
        options: As the settings say; what they leave open, Google's variables do.
        bucket: Its name.
    """
    from obstore.store import GCSStore

    config: GCSConfig = {"base_url": endpoint(options)}
    if options.gcs_service_account_path is not None:
        config["service_account"] = str(Path(options.gcs_service_account_path).expanduser())
    if options.gcs_service_account_key is not None:
        config["service_account_key"] = options.gcs_service_account_key
    if options.gcs_token is not None:
        config["bearer_token"] = options.gcs_token
    if options.gcs_anonymous:
        config["skip_signature"] = True
    return lambda **how: GCSStore(bucket, config=config, **how)


def suspect(options: StoreOptions) -> str:
    """Say which setting or variable obstore can only mean when it takes no configuration."""
    for name in ("gcs_service_account_key", "gcs_service_account_path"):
        if getattr(options, name):
            return f"{name} (it must be the whole key of a service account)"
    if not (options.gcs_token or options.gcs_anonymous):
        for name in _KEY_VARIABLES:
            if os.environ.get(name):
                return f"{name} (it must be the whole key of a service account)"
    return f"the settings that begin with gcs_, and the file that {_APPLICATION} names"


def source(options: StoreOptions) -> str | None:
    """Say where credentials come from; None where they can only be a machine's."""
    if options.gcs_anonymous:
        return "none: none are sent"
    if options.gcs_service_account_path or options.gcs_service_account_key or options.gcs_token:
        return "the settings"
    for name in (*_KEY_VARIABLES, _BEARER, _APPLICATION):
        if os.environ.get(name):
            return f"the environment ({name})"
    if Path("~/.config/gcloud/application_default_credentials.json").expanduser().is_file():
        return "gcloud auth application-default login"
    return None
