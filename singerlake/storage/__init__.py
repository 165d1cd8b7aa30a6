"""Where bytes live: a local folder or an S3 bucket, behind one small interface."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from singerlake.errors import UsageError
from singerlake.storage.base import Store


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
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None


def in_project(uri: str) -> str:
    """A folder as Meltano's plugins are told of it: in the project's root, wherever they run."""
    root = os.environ.get("MELTANO_PROJECT_ROOT")
    if not root or not uri or "://" in uri or Path(uri).expanduser().is_absolute():
        return uri
    return str(Path(root, uri))


def open_store(uri: str, options: StoreOptions | None = None) -> Store:
    """Find the store that a URI names.

    Args:
        uri: A folder, ``file:///folder`` or ``s3://bucket/prefix``.
        options: For S3.

    Raises:
        UsageError: No store has this scheme.
    """
    if not uri:
        raise UsageError("the lake's location is empty: give a folder or s3://bucket/prefix")
    scheme, separator, _ = uri.partition("://")
    if not separator:
        from singerlake.storage.local import LocalStore

        return LocalStore(Path(uri).expanduser().absolute())
    if scheme == "file":
        from singerlake.storage.local import LocalStore

        return LocalStore(Path(unquote(urlsplit(uri).path)))
    if scheme == "s3":
        from singerlake.storage.s3 import S3Store

        return S3Store.open(uri, options or StoreOptions())
    raise UsageError(f"no store for {scheme}://: use a folder or s3://bucket/prefix")
