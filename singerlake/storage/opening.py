"""From a lake's location to its store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from singerlake.errors import UsageError
from singerlake.storage.base import Store
from singerlake.storage.options import StoreOptions, from_environment

_FORMS = "a folder or s3://bucket/prefix"
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):(?=/)|(?P<cloud>s3[an]?|gs|r2)(?::|//)", re.I)
"""How a URI begins, or what was meant as one. A single letter is a drive of Windows."""
_S3_NAMES = ("s3", "s3a", "s3n")
_ENDPOINTS = {"gs": "https://storage.googleapis.com", "r2": "your account's R2 endpoint"}
"""Services of other names that speak S3, and the address to reach them by."""
_BUCKET_HOST = re.compile(r"(?P<bucket>[^/]+)\.s3[.-][^/]*amazonaws\.com(?P<prefix>/[^?]*)?")


def in_project(uri: str) -> str:
    """Put a relative folder into the root of the Meltano project, wherever a plugin runs."""
    root = os.environ.get("MELTANO_PROJECT_ROOT")
    if not root or not uri or _SCHEME.match(uri) or Path(uri).expanduser().is_absolute():
        return uri
    return str(Path(root, uri))


def default_uri() -> str:
    """Return where the lake is by default: SINGERLAKE_LAKE, else ``./lake``."""
    return in_project(os.environ.get("SINGERLAKE_LAKE") or "./lake")


def open_store(uri: str, options: StoreOptions | None = None) -> Store:
    """Open the store that a URI names.

    Args:
        uri: A folder, ``file:///folder`` or ``s3://bucket/prefix``.
        options: For S3; by default what the environment says (``SINGERLAKE_AWS_REGION`` …).

    Raises:
        UsageError: It is neither, or almost one: a typing error must not make a folder of its name.
    """
    if not uri:
        raise UsageError(f"the lake's location is empty: give {_FORMS}")
    if uri.startswith("s3://"):
        from singerlake.storage.s3.store import S3Store

        return S3Store.open(uri, from_environment() if options is None else options)
    from singerlake.storage.local.store import LocalStore

    return LocalStore(folder(uri))


def folder(uri: str, what: str = "a lake") -> Path:
    """Find the folder that somebody names, as a path or as ``file:///folder``.

    Args:
        uri: What they wrote; not ``s3://``.
        what: What lies there, for messages.

    Raises:
        UsageError: It is another URI, or not quite one.
    """
    if match := _SCHEME.match(uri):
        scheme = (match["scheme"] or match["cloud"]).lower()
        return _file_path(uri, scheme, uri[match.end() :], what)
    return Path(uri).expanduser().absolute()


def _file_path(uri: str, scheme: str, rest: str, what: str) -> Path:
    """Find the folder that a ``file:///`` URI names.

    Raises:
        UsageError: It is another URI, or not quite one.
    """
    host = urlsplit(uri).netloc
    if scheme == "file" and rest.startswith("//") and host in ("", "localhost"):
        return Path(unquote(urlsplit(uri).path))
    path = rest.lstrip("/").rpartition("@")[2]  # what stands before an @ may be a password
    if scheme == "file":
        raise UsageError(f"a folder as a URI has three slashes: did you mean file:///{path}?")
    if scheme in _S3_NAMES:
        raise UsageError(f"{what} on S3 is named s3://bucket/prefix: did you mean s3://{path}?")
    if match := _BUCKET_HOST.match(path):
        meant = f"s3://{match['bucket']}{match['prefix'] or ''}"
        raise UsageError(f"{what} on S3 is named s3://bucket/prefix: did you mean {meant}?")
    if endpoint := _ENDPOINTS.get(scheme):
        raise UsageError(
            f"no store for {scheme}://: this service is reached as S3: did you mean s3://{path}, "
            f"with {endpoint} as aws_endpoint_url (or AWS_ENDPOINT_URL)?"
        )
    raise UsageError(f"no store for {scheme}://: give {_FORMS}")
