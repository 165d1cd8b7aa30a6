"""From a lake's location to its store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from singerlake.errors import UsageError
from singerlake.storage.base import Store
from singerlake.storage.options import StoreOptions, from_environment

FORMS = "a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_SCHEME = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]+):(?=/)|(?P<cloud>s3[an]?|gs|gcs|az|azure|abfss?|r2)(?::|//)",
    re.I,
)
"""How a URI begins, or what was meant as one. A single letter is a drive of Windows."""
_S3_NAMES = ("s3", "s3a", "s3n")
_ENDPOINTS = {"r2": "your account's R2 endpoint"}
"""Services of other names that speak S3, and the address to reach them by."""
_OTHER_NAMES = {
    "gs": ("Google Cloud Storage", "gs://bucket/prefix"),
    "gcs": ("Google Cloud Storage", "gs://bucket/prefix"),
    "az": ("Azure Blob Storage", "az://container/prefix"),
    "azure": ("Azure Blob Storage", "az://container/prefix"),
    "adl": ("Azure Blob Storage", "az://container/prefix"),
}
BUCKETS = ("s3://", "gs://", "az://")
AZURE_ADDRESSES = ("https://", "abfs", "wasb")
_HADOOP_NAMES = ("abfs", "abfss", "wasb", "wasbs")
_AZURE_HOST = re.compile(r"\.core\.windows\.net(?::\d+)?$", re.IGNORECASE)
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


def is_remote(uri: str) -> bool:
    """Tell whether a location is in a bucket or container, and no folder."""
    if not uri.startswith(AZURE_ADDRESSES):
        return uri.startswith(BUCKETS)
    from singerlake.storage.object_store.locations import is_azure_address

    return is_azure_address(uri)


def remote_place(uri: str) -> str:
    """Return what stands behind the scheme of a location; a folder as it is."""
    return uri.rpartition("://")[2]


def open_store(uri: str, options: StoreOptions | None = None) -> Store:
    """Open the store that a URI names.

    Args:
        uri: A folder, ``file:///folder``, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or
            ``az://container/prefix``; a container as Hadoop or browsers name it, too.
        options: For buckets and containers; by default what the environment says
            (``SINGERLAKE_AWS_REGION`` …).

    Raises:
        UsageError: It is none, or almost one: a typing error must not make a folder of its name.
        RuntimeMissingError: The extra for such a store is not installed.
    """
    if not uri:
        raise UsageError(f"the lake's location is empty: give {FORMS}")
    if uri.startswith("s3://"):
        from singerlake.storage.s3.store import S3Store

        return S3Store.open(uri, from_environment() if options is None else options)
    if is_remote(uri):
        return _open_object_store(uri, from_environment() if options is None else options)
    from singerlake.storage.local.store import LocalStore

    return LocalStore(folder(uri))


def _open_object_store(uri: str, options: StoreOptions) -> Store:
    from singerlake.storage.object_store import connection, locations

    uri, options = locations.named_by_container(uri, options)
    vendor, _, _ = locations.split(uri)
    connection.check(vendor, options)  # whether its library is installed, before it is imported
    from singerlake.storage.object_store.store import ObjectStore

    return ObjectStore.open(uri, options)


def folder(uri: str, what: str = "a lake") -> Path:
    """Find the folder that somebody names, as a path or as ``file:///folder``.

    Args:
        uri: What they wrote; nothing that :func:`is_remote` says is a bucket.

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
    if known := _OTHER_NAMES.get(scheme):
        service, form = known
        meant = f"{form.partition(':')[0]}://{path}"
        raise UsageError(f"{what} on {service} is named {form}: did you mean {meant}?")
    if endpoint := _ENDPOINTS.get(scheme):
        raise UsageError(
            f"no store for {scheme}://: this service is reached as S3: did you mean s3://{path}, "
            f"with {endpoint} as aws_endpoint_url (or AWS_ENDPOINT_URL)?"
        )
    if scheme in _HADOOP_NAMES:
        raise UsageError(
            f"{what} on Azure Blob Storage is named {scheme}://container@account.dfs.core.windows."
            "net/prefix, or az://container/prefix with the account as azure_storage_account_name"
        )
    if scheme == "https" and _AZURE_HOST.search(host) and "?" in uri:
        meant = urlsplit(uri).path.strip("/") or "container/prefix"
        raise UsageError(
            f"a signature does not belong in an address: did you mean az://{meant}, with what "
            "follows the ? as azure_storage_sas_token, and the account as "
            "azure_storage_account_name?"
        )
    raise UsageError(f"no store for {scheme}://: give {FORMS}")
