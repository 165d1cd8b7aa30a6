"""How a lake on Google Cloud Storage or Azure Blob Storage is named. Imports no obstore."""

from __future__ import annotations

import re
from dataclasses import replace

from singerlake.errors import UsageError
from singerlake.storage.keys import prefix_of
from singerlake.storage.object_store.vendor import VENDORS, Vendor
from singerlake.storage.options import StoreOptions

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HADOOP = re.compile(
    r"(?:abfss?|wasbs?)://(?P<container>[^@/]+)@(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.core\."
    r"windows\.net(?:/(?P<prefix>[^?#]*))?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"https://(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net/(?P<container>[^/?#]+)"
    r"(?:/(?P<prefix>[^?#]*))?",
    re.IGNORECASE,
)


def is_azure_address(uri: str) -> bool:
    """Tell whether a URI names a container of an account, as Hadoop or as browsers do."""
    return bool(_HADOOP.fullmatch(uri) or _ADDRESS.fullmatch(uri))


def named_by_container(uri: str, options: StoreOptions) -> tuple[str, StoreOptions]:
    """Turn an address of Azure into ``az://container/prefix``, with the account in the options.

    Args:
        uri: ``abfss://container@account.dfs.core.windows.net/prefix``, or
            ``https://account.blob.core.windows.net/container/prefix``; others stay as they are.
        options: As the settings say.

    Raises:
        UsageError: The settings name another account.
    """
    match = _HADOOP.fullmatch(uri) or _ADDRESS.fullmatch(uri)
    if match is None:
        return uri, options
    account = match["account"].lower()
    if options.azure_storage_account_name not in (None, account):
        raise UsageError(
            f"the lake's address is of the account {account}, and azure_storage_account_name is "
            f"{options.azure_storage_account_name!r}: leave one of them out"
        )
    prefix = (match["prefix"] or "").strip("/")
    uri = f"az://{match['container']}{'/' if prefix else ''}{prefix}"
    return uri, replace(options, azure_storage_account_name=account)


def split(uri: str, what: str = "a lake") -> tuple[Vendor, str, str]:
    """Service, bucket and prefix (without slashes at its ends) of a URI.

    Args:
        uri: The URI.
        what: What lies there, for messages.

    Raises:
        UsageError: It is not of the form ``gs://bucket/prefix`` or ``az://container/prefix``.
    """
    scheme, _, path = uri.partition("://")
    vendor = VENDORS[scheme]
    container, _, prefix = path.partition("/")
    if not vendor.names.fullmatch(container):
        # Not repeated: it may be an attempt to give credentials.
        raise UsageError(
            f"{what} on {vendor.name} is named {scheme}://{vendor.container}/prefix, and this "
            f"{vendor.container} is not a valid name ({vendor.spelling}); credentials belong in "
            "the settings"
        )
    if "?" in prefix:
        # Not repeated either.
        raise UsageError(
            f"the part after the ? is not part of its name: {what} on {vendor.name} is named "
            f"{scheme}://{vendor.container}/prefix; credentials belong in the settings"
        )
    if _CONTROL.search(prefix):
        raise UsageError(f"the prefix {prefix!r} has a control character: leave it out")
    return vendor, container, prefix_of(prefix)
