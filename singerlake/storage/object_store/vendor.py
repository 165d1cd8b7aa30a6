"""The services that obstore reaches, and one way to each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Vendor:
    """A service.

    Attributes:
        scheme: How its URIs begin.
        name: What people call it.
        container: Its word for what objects lie in.
        tag: The part of obstore's metadata that a condition on an object goes by.
        extra: The extra of this package that brings its library.
        names: What the name of a container looks like.
        spelling: The same, for people.
        host: The end of its own addresses; others are emulators and the like, which may ignore
            conditions.
        put_bytes: The largest object that it takes in one request.
        copies: Whether it copies an object, under a condition, before it answers.
        permissions: What credentials must be allowed to do, for messages.
    """

    scheme: str
    name: str
    container: str
    tag: str
    extra: str
    names: re.Pattern[str]
    spelling: str
    host: tuple[str, ...]
    put_bytes: int
    copies: bool
    permissions: str


GOOGLE = Vendor(
    scheme="gs",
    name="Google Cloud Storage",
    container="bucket",
    tag="version",
    extra="gcs",
    names=re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    spelling="three or more small letters, digits, dots, - and _",
    host=("googleapis.com",),
    put_bytes=5 << 40,
    copies=True,
    permissions=(
        "storage.objects.get, list, create and delete on the bucket (the role Storage Object User)"
    ),
)
AZURE = Vendor(
    scheme="az",
    name="Azure Blob Storage",
    container="container",
    tag="e_tag",
    extra="azure",
    names=re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$web|\$root"),
    spelling="3 to 63 small letters, digits and single -",
    host=(
        "blob.core.windows.net",
        "blob.core.usgovcloudapi.net",
        "blob.core.chinacloudapi.cn",
        "blob.storage.azure.net",
    ),
    put_bytes=5000 << 20,
    copies=False,  # it may answer before the copy is there
    permissions="to read, write, delete and list blobs (the role Storage Blob Data Contributor)",
)
VENDORS = {vendor.scheme: vendor for vendor in (GOOGLE, AZURE)}


@dataclass(frozen=True)
class Connection:
    """Clients of a bucket, or container; they are made once in a process.

    Attributes:
        endpoint: The address that requests go to.
        quick: obstore's client for what is short: an answer that says nothing for a while fails.
        bulk: Its client for large objects going up, while which nothing can be heard.
    """

    vendor: Vendor
    container: str
    endpoint: str
    quick: Any
    bulk: Any
