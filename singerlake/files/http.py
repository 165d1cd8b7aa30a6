"""Files from web servers: never from a private network, never more than the limit.

A name is looked up once, all its addresses must be public, and the connection goes to one of just
these, so that a name server that answers otherwise the second time gains nothing. Each redirect is
looked at in the same way.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import SplitResult, urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from singerlake.errors import InputError
from singerlake.files.sources import PIECE_BYTES, MissingFileError, shown

REDIRECTS = 5
TRIES = 5
"""Times that a file is gone on with whose connection broke off."""
_TIMEOUT = urllib3.Timeout(connect=10, read=60)
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_PORTS = {"http": 80, "https": 443}


def pieces(url: str, limit: int) -> Iterator[bytes]:
    """Read a file, piece by piece; where the connection breaks off, go on from there.

    Args:
        url: ``http://`` or ``https://``.
        limit: The most bytes that it may have.

    Raises:
        MissingFileError: The server says that it is not there.
        InputError: It may not be read, is too large, or the server does not give it.
    """
    read, tag = 0, ""
    for left in reversed(range(TRIES)):
        try:
            with _opened(url, read, tag) as answer:
                tag = _tag_of(answer)
                length = int(answer.headers.get("Content-Length") or 0)
                if read + length > limit:
                    raise _too_large(url, limit)
                for piece in answer.stream(PIECE_BYTES, decode_content=False):
                    read += len(piece)
                    if read > limit:
                        raise _too_large(url, limit)
                    yield piece
            return
        except (HTTPError, OSError, ValueError) as error:
            # Without a tag nobody can tell whether the rest is that of the same file.
            if not left or (read and not tag):
                raise InputError(f"{shown(url)} cannot be read: {type(error).__name__}") from error


def _too_large(url: str, limit: int) -> InputError:
    return InputError(f"{shown(url)} has more than file_http_max_bytes, {limit:,} bytes")


def _tag_of(answer: urllib3.BaseHTTPResponse) -> str:
    tag = answer.headers.get("ETag", "")
    return "" if tag.startswith("W/") else tag


def _opened(url: str, start: int, tag: str) -> urllib3.BaseHTTPResponse:
    """Ask for a file, from a byte on."""
    at = url
    for _ in range(REDIRECTS + 1):
        answer = _request(at, start, tag)
        place = answer.get_redirect_location()
        if not place:
            break
        answer.close()
        at = urljoin(at, place)
    else:
        raise InputError(f"{shown(url)} is redirected more than {REDIRECTS} times")
    wanted = HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK
    if answer.status == wanted:
        return answer
    answer.close()
    if answer.status in _GONE:
        raise MissingFileError(f"{shown(url)} does not exist")
    if start and answer.status == HTTPStatus.OK:
        raise InputError(f"{shown(url)} changed while it was read: run it again")
    raise InputError(f"{shown(url)} cannot be downloaded: the server answered {answer.status}")


def _request(url: str, start: int, tag: str) -> urllib3.BaseHTTPResponse:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError(f"{shown(url)} is not a web address")
    if parts.username is not None:
        raise InputError(
            f"{shown(url)} is rejected: an address must not contain a user or password"
        )
    port = parts.port or _PORTS[parts.scheme]
    address = public_address(parts.hostname, port, url)
    # Compressed on the way, a small answer could become a file without end.
    headers = {"Host": parts.netloc, "Accept-Encoding": "identity", "User-Agent": "singerlake"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": tag}
    pool = _pool(parts, address, port)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return pool.urlopen(
        "GET", target, headers=headers, redirect=False, retries=False, preload_content=False
    )


def _pool(parts: SplitResult, address: str, port: int) -> urllib3.HTTPConnectionPool:
    """Connect to an address that was looked at, as the host that it was asked for."""
    if parts.scheme == "http":
        return urllib3.HTTPConnectionPool(address, port, timeout=_TIMEOUT)
    return urllib3.HTTPSConnectionPool(
        address,
        port,
        timeout=_TIMEOUT,
        cert_reqs="CERT_REQUIRED",
        server_hostname=parts.hostname,
        assert_hostname=parts.hostname,
    )


def public_address(host: str, port: int, url: str) -> str:
    """Look up an address of a host, all of whose addresses must be public.

    Raises:
        InputError: One is not, or there is none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{shown(url)} cannot be reached: its host is not known") from error
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        if not is_public(address):
            raise InputError(f"{shown(url)} is rejected: its host is in a private network")
    return addresses[0]


def is_public(address: str) -> bool:
    """Tell whether an address is one of the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # An IPv4 address in another dress: mapped, 6to4, Teredo, NAT64.
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None and not is_public(str(inner)):
            return False
        if ip.ipv4_mapped is not None:
            return True
    return ip.is_global and not ip.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
