"""A lake below a prefix of a bucket of Google Cloud Storage, or of a container of Azure.

Creation is one PUT under the condition that there is nothing, replacement one under the condition
that the object is still the same: Google goes by its generation, Azure by its etag. Large files
go up in one request as well, for both services take them, and obstore knows no condition on an
upload in parts. Files are staged on the local disk, so that nothing is there before they are whole.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore

from singerlake.errors import StoreError
from singerlake.format.names import STAGING
from singerlake.storage import keys
from singerlake.storage.base import (
    Capabilities,
    KeyExistsError,
    KeyMissingError,
    Listed,
    Staged,
    Store,
    StoredObject,
    check_size,
)
from singerlake.storage.object_store import facts, locations
from singerlake.storage.object_store.connection import connect, is_own_service, of_this_process
from singerlake.storage.object_store.obstore_errors import (
    BeyondEndError,
    DoubtfulConflictError,
    Requests,
)
from singerlake.storage.object_store.vendor import Connection
from singerlake.storage.options import StoreOptions
from singerlake.storage.replacement import confirm_replacement
from singerlake.storage.spooled import SpooledFile
from singerlake.storage.unfinished import Leftover

if TYPE_CHECKING:
    from obstore import PutMode

BULK_BYTES = 4 << 20
"""Objects from this on go up by the client that has patience."""
PAGE_KEYS = 1000
"""Objects that are taken from a listing at a time."""


def _rebuild(uri: str, options: StoreOptions, capabilities: Capabilities | None) -> ObjectStore:
    vendor, container, _ = locations.split(uri)
    store = ObjectStore(uri, options, of_this_process(vendor, container, options))
    store._capabilities = capabilities
    return store


class _Pages:
    """A listing, a page at a time; one that breaks off goes on where it did.

    Args:
        client: obstore's.
        folder: What all names begin with; None for all.
    """

    def __init__(self, client: Any, folder: str | None) -> None:
        self._client = client
        self._folder = folder
        self._last: str | None = None
        self._stream: Iterator[Sequence[Any]] | None = None

    def _begin(self) -> Iterator[Sequence[Any]]:
        return iter(
            obstore.list(self._client, self._folder, offset=self._last, chunk_size=PAGE_KEYS)
        )

    def next(self) -> Sequence[Any]:
        """Return the next objects; nothing at the end."""
        try:
            if self._stream is None:
                self._stream = self._begin()
            for page in self._stream:
                # A service may begin anew all the same.
                if fresh := [one for one in page if self._last is None or one["path"] > self._last]:
                    self._last = fresh[-1]["path"]
                    return fresh
        except BaseException:
            self._stream = None
            raise
        return ()


class ObjectStore(Store):
    """A bucket or container, or what lies below a prefix of one. Made by :meth:`open`."""

    def __init__(self, uri: str, options: StoreOptions, connection: Connection) -> None:
        vendor, container, prefix = locations.split(uri)
        self._base = f"{prefix}/" if prefix else ""
        self._options = options
        self._connection = connection
        self._quick = connection.quick
        own = is_own_service(connection)
        self._capabilities = Capabilities() if own else None  # who knows what an emulator does
        self.uri = f"{vendor.scheme}://{container}/{self._base}".rstrip("/")
        # Google's names of buckets are one everywhere; a container's is its account's.
        anywhere = own and vendor.scheme == "gs"
        self.service = "" if anywhere else urlsplit(connection.endpoint).netloc
        self._requests = Requests(self.uri, connection)
        self.not_listed = (
            f"{vendor.name} may keep earlier versions, snapshots and deleted objects, which are "
            "not searched: check that the bucket or container keeps none"
        )

    @classmethod
    def open(cls, uri: str, options: StoreOptions) -> ObjectStore:
        """Open a lake; nothing is sent yet.

        Args:
            uri: ``gs://bucket/prefix`` or ``az://container/prefix``, or the bucket or container
                alone, taken as it is: nothing is decoded.
            options: Credentials and endpoint.

        Raises:
            UsageError: The URI or the options cannot be used.
            RuntimeMissingError: obstore is not installed.
        """
        vendor, container, _ = locations.split(uri)
        return cls(uri, options, connect(vendor, container, options))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.uri, self._options, self._capabilities)

    def __repr__(self) -> str:
        return f"ObjectStore({self.uri!r})"

    def get(self, key: str) -> StoredObject:
        name = self._name(key)

        def read() -> StoredObject:
            answer = obstore.get(self._quick, name)
            check_size(answer.meta["size"], self._requests.where(key))
            return StoredObject(answer.bytes().to_bytes(), self._tag(answer.meta))

        return self._requests.read("read", key, read)

    def get_if_small(self, key: str, most: int) -> StoredObject | None:
        name = self._name(key)

        def read() -> StoredObject | None:
            answer = obstore.get(self._quick, name)
            if answer.meta["size"] > most:
                return None
            return StoredObject(answer.bytes().to_bytes(), self._tag(answer.meta))

        return self._requests.read("read", key, read)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        # No empty range can be asked for, and a key that is missing must be noticed all the same.
        name, end = self._name(key), offset + max(length, 1)

        def read() -> bytes:
            answer = obstore.get(self._quick, name, options={"range": (offset, end)})
            start = answer.range[0]  # of a service that ignores ranges, the whole object's
            return answer.bytes().to_bytes()[offset - start :][: max(length, 0)]

        try:
            return self._requests.read("read", key, read)
        except BeyondEndError:
            return b""

    def etag(self, key: str) -> str:
        """Return an object's tag, which changes whenever its bytes do; empty where it has none.

        Raises:
            KeyMissingError: There is no such object.
        """
        name = self._name(key)

        def read() -> str:
            answer = obstore.get(self._quick, name, options={"range": (0, 1)})
            answer.bytes()  # so that the connection is free again
            return self._tag(answer.meta)

        try:
            return self._requests.read("read", key, read)
        except BeyondEndError:  # there is nothing in it
            return ""

    # Whatever is written here outlasts a power cut.
    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:  # noqa: ARG002
        # Where a request is repeated whose answer was lost, the repetition finds the key taken:
        # by us. Callers that can tell their own bytes read it back.
        return self._put("create", key, data, "create")

    def replace(
        self,
        key: str,
        data: bytes,
        etag: str | None,
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> str:
        if etag is None:
            return self._put("replace", key, data, "overwrite")
        unchanged: Any = {self._connection.vendor.tag: etag}
        try:
            return self._put("replace", key, data, unchanged)
        except DoubtfulConflictError:
            return confirm_replacement(self, key, data, self._requests.where(key))

    def clock_ahead(self) -> float | None:
        return self._clock_ahead

    @functools.cached_property
    def _clock_ahead(self) -> float | None:
        return facts.clock_ahead(f"{self._connection.endpoint}/{self._connection.container}")

    def first_key(self) -> str | None:
        return next((listed.key for listed in self._listed("")), None)

    def write_page(self, key: str, data: bytes, media_type: str) -> None:
        self._put("replace", key, data, "overwrite", {"Content-Type": media_type})

    def clone(self, source: str, key: str, size: int) -> None:
        if not self._connection.vendor.copies:
            super().clone(source, key, size)
            return
        origin, name = self._name(source), self._name(key)
        copy = lambda: obstore.copy(self._quick, origin, name, overwrite=False)  # noqa: E731
        self._requests.write("copy", source, copy)

    def delete(self, key: str) -> None:
        name = self._name(key)
        with suppress(KeyMissingError):
            self._requests.read("delete", key, lambda: obstore.delete(self._quick, name))

    def folders(self, prefix: str) -> Sequence[str]:
        folder = self._folder(prefix)
        page = self._requests.read(
            "list", prefix, lambda: obstore.list_with_delimiter(self._quick, folder or None)
        )
        return sorted(name.rstrip("/").rpartition("/")[2] for name in page["common_prefixes"])

    def list(self, prefix: str) -> Iterator[Listed]:
        return self._listed(prefix)

    def _listed(self, prefix: str) -> Iterator[Listed]:
        pages = _Pages(self._quick, self._folder(prefix) or None)
        while page := self._requests.read("list", prefix, pages.next):
            for item in page:
                modified = item["last_modified"].timestamp()
                yield Listed(item["path"][len(self._base) :], item["size"], modified)

    def stage(self) -> Staged:
        return SpooledFile(self.upload, self.delete)

    def leftovers(self) -> Iterator[Leftover]:
        for item in self.list(STAGING):  # of a probe that died, or shared by a writer
            yield Leftover(item.key, item.size, item.modified, certain=False)

    def remove_leftover(self, leftover: Leftover) -> None:
        self.delete(leftover.name)

    def upload(self, path: Path, size: int, key: str) -> None:
        """Publish a local file; see :meth:`Staged.publish`."""
        vendor = self._connection.vendor
        if size > vendor.put_bytes:
            raise StoreError(
                f"cannot create {self._requests.where(key)}: it has {size:,} bytes, and "
                f"{vendor.name} takes {vendor.put_bytes:,} in one request: set a smaller file_bytes"
            )
        with path.open("rb") as file:
            if size < BULK_BYTES:
                self.put_if_absent(key, file.read(size))
                return
            if self.exists(key):  # before all of it goes up for nothing
                raise KeyExistsError(f"{self._requests.where(key)} is taken")
            # Mapped, not read: of a large file nothing is copied into our memory.
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                self._put("create", key, data, "create")

    def _put(
        self,
        action: str,
        key: str,
        data: bytes | mmap.mmap,
        mode: PutMode,
        attributes: dict[str, str] | None = None,
    ) -> str:
        name = self._name(key)
        client = self._quick if len(data) < BULK_BYTES else self._connection.bulk

        def put() -> Any:
            return obstore.put(
                client, name, data, mode=mode, attributes=attributes, use_multipart=False
            )

        return self._tag(self._requests.write(action, key, put))

    def _tag(self, meta: Any) -> str:
        return str(meta[self._connection.vendor.tag] or "")

    def _folder(self, prefix: str) -> str:
        return f"{self._name(prefix.rstrip('/'))}/" if prefix else self._base

    def _name(self, key: str) -> str:
        return keys.object_name(self._base, key)
