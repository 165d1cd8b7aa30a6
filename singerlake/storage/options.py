"""How a store is reached and asked: credentials, region, endpoint, encryption, patience."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from singerlake.errors import UsageError

_PREFIX = "aws_"
_OTHERS = ("gcs_", "azure_")
"""The other services: their fields are named as their settings are."""
ENVIRONMENT = "SINGERLAKE_"
"""What the variables begin with by which commands and programs are told settings."""


@dataclass(frozen=True)
class StoreOptions:
    """How to reach a store. Secrets never show in its ``repr``.

    Attributes:
        access_key_id: AWS access key; None uses boto3's usual chain.
        secret_access_key: The secret to it.
        session_token: For temporary credentials.
        profile: A profile of the AWS configuration.
        region: The bucket's region.
        endpoint_url: Another S3-compatible service.
        sse: How S3 is to encrypt what is written: ``AES256``, ``aws:kms`` or ``aws:kms:dsse``.
        sse_kms_key_id: By which key of KMS.
        sse_customer_key: By a key of the caller's own, 32 bytes in Base64; needed to read, too.
        acl: A canned ACL for what is written.
        requester_pays: Whether requests are paid for by who makes them, as some buckets demand.
        addressing_style: ``path``, ``virtual`` or ``auto``.
        ca_bundle: A file of certificates to trust, in place of the usual ones.
        proxy: A proxy's URL.
        connect_timeout: Seconds to wait for a connection.
        read_timeout: Seconds of silence to stand in an answer.
        max_attempts: How often a request is made that fails, the first time counted.
        gcs_service_account_path: For Google Cloud Storage: a service account's key file.
        gcs_service_account_key: What such a file holds, as JSON.
        gcs_token: An access token, which is not renewed.
        gcs_endpoint_url: Another address of the service, such as an emulator's.
        gcs_anonymous: Whether no credentials are sent, as public buckets allow.
        azure_storage_account_name: For Azure Blob Storage: the account.
        azure_storage_account_key: Its key.
        azure_storage_sas_token: A shared access signature, in place of the key.
        azure_storage_connection_string: All of it in one, as the portal gives it.
        azure_tenant_id: The tenant of a service principal.
        azure_client_id: Its id.
        azure_client_secret: Its secret.
        azure_endpoint_url: Another address of the account, such as an emulator's.
        azure_anonymous: Whether no credentials are sent, as public containers allow.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    sse: str | None = None
    sse_kms_key_id: str | None = None
    sse_customer_key: str | None = field(default=None, repr=False)
    acl: str | None = None
    requester_pays: bool = False
    addressing_style: str | None = None
    ca_bundle: str | None = None
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float | None = None
    read_timeout: float | None = None
    max_attempts: int | None = None
    gcs_service_account_path: str | None = None
    gcs_service_account_key: str | None = field(default=None, repr=False)
    gcs_token: str | None = field(default=None, repr=False)
    gcs_endpoint_url: str | None = None
    gcs_anonymous: bool = False
    azure_storage_account_name: str | None = None
    azure_storage_account_key: str | None = field(default=None, repr=False)
    azure_storage_sas_token: str | None = field(default=None, repr=False)
    azure_storage_connection_string: str | None = field(default=None, repr=False)
    azure_tenant_id: str | None = None
    azure_client_id: str | None = None
    azure_client_secret: str | None = field(default=None, repr=False)
    azure_endpoint_url: str | None = None
    azure_anonymous: bool = False


def setting_of(field_name: str) -> str:
    """Return the name of the setting that a field of :class:`StoreOptions` is."""
    return field_name if field_name.startswith(_OTHERS) else f"{_PREFIX}{field_name}"


_FIELDS = {setting_of(one.name): one for one in fields(StoreOptions)}
SETTINGS = tuple(_FIELDS)
"""The settings' names, as plugins have them."""
SECRETS = frozenset(name for name, one in _FIELDS.items() if not one.repr)
"""Those that no command line takes; a proxy's URL may hold a password."""
_NUMBERS: dict[str, Callable[[str], float]] = {
    "aws_connect_timeout": float,
    "aws_read_timeout": float,
    "aws_max_attempts": int,
}
_YES_OR_NO = frozenset(name for name, one in _FIELDS.items() if one.default is False)
_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def from_settings(settings: Mapping[str, object]) -> StoreOptions:
    """Collect how to reach a store from settings, as plugins have them.

    An empty one counts as none: Meltano passes unset ones so. Others are passed over.

    Args:
        settings: Values by name, or texts as variables of the environment have them.

    Raises:
        UsageError: A text is not the number, or not the yes or no, that a setting takes.
    """
    given: dict[str, Any] = {
        _FIELDS[name].name: _typed(name, settings[name])
        for name in SETTINGS
        if settings.get(name) not in (None, "")
    }
    return StoreOptions(**given)


def _typed(name: str, value: object) -> object:
    if name in _YES_OR_NO and isinstance(value, str):
        if (switch := _SWITCHES.get(value.lower())) is None:
            raise UsageError(f"{name} is {value!r}: use true or false")
        return switch
    if name in _NUMBERS and isinstance(value, str):
        try:
            return _NUMBERS[name](value)
        except ValueError:
            raise UsageError(f"{name} is {value!r}, which is not a number") from None
    return value


def from_environment() -> StoreOptions:
    """Collect it from variables such as ``SINGERLAKE_AWS_REGION``."""
    return from_settings(_said_under(ENVIRONMENT))


def of_an_end(end: str, pairs: Mapping[str, str]) -> StoreOptions:
    """Collect it for one of two places that a command is told of.

    Args:
        end: ``FROM`` or ``TO``. Where nothing is said of this end, what is said of all counts.
        pairs: What the command line says of it.

    Raises:
        UsageError: There is no such setting, or it is a secret, which others see in a command
            line.
    """
    prefix = f"{ENVIRONMENT}{end}_"
    for name in pairs:
        if name in SECRETS:
            raise UsageError(
                f"{name} is a secret, which others could see on the command line: set "
                f"{prefix}{name.upper()} in the environment"
            )
        if name not in SETTINGS:
            known = ", ".join(one for one in SETTINGS if one not in SECRETS)
            raise UsageError(f"there is no setting {name!r} of a store: there are {known}")
    own = {**_said_under(prefix), **pairs}
    return from_settings(own) if any(own.values()) else from_environment()


def _said_under(prefix: str) -> dict[str, str]:
    """What the environment says of each setting, in variables whose names begin so."""
    return {name: os.environ.get(f"{prefix}{name.upper()}", "") for name in SETTINGS}
