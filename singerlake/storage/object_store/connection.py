"""obstore's clients of a bucket or container, made once in a process."""

from __future__ import annotations

import functools
import os
import re
from datetime import timedelta
from types import ModuleType
from urllib.parse import urlsplit

from singerlake.errors import SingerlakeError, UsageError
from singerlake.extras import require
from singerlake.storage.object_store import azure, google, header_values
from singerlake.storage.object_store.vendor import GOOGLE, Connection, Vendor
from singerlake.storage.options import StoreOptions

PANIC = "PanicException"
_CONNECT = timedelta(seconds=10)
"""obstore's 5 s are short for a private network; much more makes a firewall look like a hang."""
_SILENCE = timedelta(seconds=60)
"""Between two pieces of an answer, not the whole transfer's time."""
_LONGEST = timedelta(hours=1)
"""For one request. obstore's 30 s would cut off whatever is large or far away."""


def check(vendor: Vendor, options: StoreOptions) -> None:
    """Refuse settings that cannot work, without repeating a secret; nothing is sent.

    Raises:
        UsageError: One cannot.
        RuntimeMissingError: obstore is not installed.
    """
    require("obstore", f"a lake on {vendor.name}", extra=vendor.extra)
    _settings(vendor).check(options)
    _check_address(f"{vendor.extra}_endpoint_url", endpoint(vendor, options))


def _check_address(name: str, address: str) -> None:
    """Refuse an endpoint that cannot be one; it is not repeated, for it may hold a password.

    Raises:
        UsageError: It cannot.
    """
    if "@" in address:
        raise UsageError(f"{name} must not hold a user or password")
    if not re.match(r"https?://[^/]", address):
        raise UsageError(f"{name} must begin with http:// or https://")
    header_values.check({name: address})
    try:
        named = urlsplit(address).hostname is not None and urlsplit(address).port != 0
    except ValueError:  # no number, or no address of IPv6
        named = False
    if not named:
        raise UsageError(f"{name} is not http://host:port or https://host:port: correct it")


def _settings(vendor: Vendor) -> ModuleType:
    return google if vendor is GOOGLE else azure


def endpoint(vendor: Vendor, options: StoreOptions) -> str:
    """Return the address that requests go to.

    Raises:
        UsageError: The settings name no account.
    """
    return str(_settings(vendor).endpoint(options))


def source(vendor: Vendor, options: StoreOptions) -> str | None:
    """Say where credentials come from; None where they can only be a machine's.

    Raises:
        UsageError: The settings name no account.
    """
    found: str | None = _settings(vendor).source(options)
    return found


def is_own_service(connection: Connection) -> bool:
    """Tell whether requests go to the vendor itself, and to no emulator or other service."""
    host = urlsplit(connection.endpoint).hostname or ""
    return any(host == end or host.endswith(f".{end}") for end in connection.vendor.host)


def connect(vendor: Vendor, container: str, options: StoreOptions) -> Connection:
    """Make clients; nothing is sent yet.

    Args:
        container: The bucket or container.
        options: As the settings say; what they leave open, the vendor's variables do.

    Raises:
        UsageError: The settings, or the vendor's configuration, cannot be used.
        RuntimeMissingError: obstore is not installed.
    """
    check(vendor, options)
    address = endpoint(vendor, options)
    ways = {
        "allow_http": address.startswith("http:"),
        "connect_timeout": _CONNECT,
        "timeout": _LONGEST,
    }
    # Requests are repeated by us, who must know of each whether it may have written.
    retries = {"max_retries": 0, "retry_timeout": _LONGEST}
    try:
        client = _settings(vendor).client_of(options, container)
        quick = client(client_options={**ways, "read_timeout": _SILENCE}, retry_config=retries)
        bulk = client(client_options=ways, retry_config=retries)
    except BaseException as error:  # its text may quote a key
        if not is_of_obstore(error):
            raise
        raise UsageError(
            f"the settings of {vendor.name} cannot be used ({type(error).__name__}): check "
            f"{_settings(vendor).suspect(options)}"
        ) from None
    return Connection(vendor, container, address, quick, bulk)


def is_of_obstore(error: BaseException) -> bool:
    """Tell whether it is a library that failed; obstore's panics are no ``Exception``.

    By no list of classes: what it is made of raises its own.
    """
    if isinstance(error, SingerlakeError):
        return False
    return isinstance(error, Exception) or type(error).__name__ == PANIC


@functools.lru_cache(maxsize=8)
def shared(vendor: Vendor, container: str, options: StoreOptions, _pid: int) -> Connection:
    """Return the process's own connection, for stores that come to it from another."""
    return connect(vendor, container, options)


def of_this_process(vendor: Vendor, container: str, options: StoreOptions) -> Connection:
    """As :func:`connect`, once for all of a process: connections do not outlast a fork."""
    return shared(vendor, container, options, os.getpid())
