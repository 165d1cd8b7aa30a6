"""Whether Spark's master can be reached: asked before Java starts, for Spark tries for minutes."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from singerlake.errors import RuntimeMissingError, UsageError

TIMEOUT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
"""For each address, and for all of them."""
_STANDALONE, _KUBERNETES = "spark://", "k8s://"
_LOCAL = re.compile(r"local(-cluster)?(\[[0-9*, ]+\])?")
_PORTS = {"https": 443, "http": 80}


def check_master(master: str) -> None:
    """Make sure that a master is one, and that something listens at its address.

    Args:
        master: Spark's master URL; empty where spark-submit has chosen one already.

    Raises:
        UsageError: It is no master URL.
        RuntimeMissingError: Nothing listens there.
    """
    if not master or master == "yarn" or _LOCAL.fullmatch(master):
        return
    refused = []
    try:
        addresses = list(_addresses(master))
        for host, port in addresses:
            reason = _refusal(host, port, TOTAL_SECONDS / len(addresses))
            if reason is None:
                return
            refused.append(f"{host}:{port}: {reason}")
    except ValueError:  # of a host too, whose name cannot be one: a..b
        addresses = []
    if not addresses:
        raise UsageError(
            f"{master!r} is not a Spark master: write local[4], spark://host:7077, yarn or "
            "k8s://https://host:443"
        )
    raise RuntimeMissingError(
        f"no Spark master answers at {master} ({'; '.join(refused)}): start it, or name "
        "another with --master"
    )


def _refusal(host: str, port: int, seconds: float) -> str | None:
    """Why nobody answers at any of a host's addresses within the time; None if one answers.

    Raises:
        ValueError: The host's name cannot be one.
    """
    reason = "no address"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return _words(error)
    for *_, address in addresses:
        try:
            timeout = min(TIMEOUT_SECONDS, seconds / len(addresses))
            socket.create_connection((str(address[0]), port), timeout).close()
        except OSError as error:
            reason = _words(error)
        else:
            return None
    return reason


def _words(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """The hosts and ports in a master URL.

    Raises:
        ValueError: A port is no number.
    """
    if master.startswith(_STANDALONE):
        for text in master.removeprefix(_STANDALONE).split(","):
            address = urlsplit(f"//{text}")
            if address.hostname and address.port:
                yield address.hostname, address.port
    elif master.startswith(_KUBERNETES):
        url = master.removeprefix(_KUBERNETES)
        address = urlsplit(url if "://" in url else f"https://{url}")
        if address.hostname and address.scheme in _PORTS:
            yield address.hostname, address.port or _PORTS[address.scheme]
