"""A lake below a prefix of an S3 bucket, or of a service that speaks S3.

Creation is PutObject with ``If-None-Match: *``, replacement PutObject with ``If-Match``.
Large files go up in parts, with the condition on CompleteMultipartUpload. Files are staged
on the local disk, so that nothing is in the bucket before they are whole.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config

from singerlake.format.names import STAGING
from singerlake.safe_text import redacted
from singerlake.storage import keys
from singerlake.storage.base import (
    Capabilities,
    KeyExistsError,
    KeyMissingError,
    Listed,
    Staged,
    Store,
    StoredCopy,
    StoredObject,
)
from singerlake.storage.options import StoreOptions
from singerlake.storage.replacement import confirm_replacement
from singerlake.storage.s3 import bodies, settings, uploads, versions
from singerlake.storage.s3.boto_errors import (
    BeyondEndError,
    ErrorMapper,
    begin_write,
    in_doubt,
    note_attempt,
    until_decided,
)
from singerlake.storage.s3.connection import connect
from singerlake.storage.s3.whole_answers import clock_ahead
from singerlake.storage.spooled import SpooledFile
from singerlake.storage.unfinished import RESUMED_BYTES, Begun, Leftover

COPY_BYTES = 5 << 30
"""What S3 copies in one request."""


def _config(options: StoreOptions) -> Config:
    # A service named by the environment needs the same care as one named in the settings.
    environment = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    other_service = options.endpoint_url or any(os.environ.get(name) for name in environment)
    more: dict[str, Any] = {}
    if other_service:
        # Such services are seldom reachable as bucket.host, and many refuse the checksum
        # trailers that boto3 sends by default since 1.36.
        more = {
            "s3": {"addressing_style": "path"},
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
    return Config(
        # The default ("legacy") does not retry all throttling answers. Five attempts with
        # backoff ride out the usual SlowDown of a fresh prefix, and end within a minute.
        retries={"mode": "standard", "total_max_attempts": 5},
        # The default of 60 s to connect makes a wrong endpoint or a firewall look like a hang.
        connect_timeout=10,
        # The silence allowed between two pieces of an answer, not the whole transfer's time.
        read_timeout=60,
        # The default of 10 would make threads that upload parts or read blocks reconnect.
        max_pool_connections=32,
        tcp_keepalive=True,
        **more,
    )


def _client(options: StoreOptions) -> Any:
    _, client = connect(options, _config(options))
    client.meta.events.register("needs-retry.s3", note_attempt, "singerlake-attempts")
    return client


@functools.lru_cache(maxsize=4)
def _shared_client(options: StoreOptions, _pid: int) -> Any:
    return _client(options)


def _rebuild(uri: str, options: StoreOptions, capabilities: Capabilities | None) -> S3Store:
    # One client a process, not a Spark task: making one takes 0.1 s. The process id, because
    # connections must not be shared across a fork.
    store = S3Store(uri, options, _shared_client(options, os.getpid()))
    store._capabilities = capabilities
    return store


class S3Store(Store):
    """A bucket, or what lies below a prefix of one. Made by :meth:`open`."""

    def __init__(self, uri: str, options: StoreOptions, client: Any) -> None:
        self._bucket, prefix = settings.split(uri)
        self._base = f"{prefix}/" if prefix else ""
        self._options = options
        self._client = client
        self._capabilities = None  # some services that speak S3 ignore conditions
        self.uri = f"s3://{self._bucket}/{self._base}".rstrip("/")
        host = urlsplit(client.meta.endpoint_url).netloc
        # At AWS a bucket's name is one everywhere, whichever region's address is asked.
        self.service = "" if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else host
        self._errors = ErrorMapper(self.uri, self._bucket, redacted(client.meta.endpoint_url))
        self._uploads = uploads.Uploads(client, self._bucket, self._base, self._errors)
        self._versions = versions.Versions(client, self._bucket, self._base, self._errors)

    @classmethod
    def open(cls, uri: str, options: StoreOptions) -> S3Store:
        """Open a lake; nothing is sent yet.

        Args:
            uri: ``s3://bucket`` or ``s3://bucket/prefix``, taken as it is: nothing is decoded.
            options: Credentials, region and endpoint.

        Raises:
            UsageError: The URI or the options cannot be used.
        """
        settings.split(uri)
        return cls(uri, options, _client(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.uri, self._options, self._capabilities)

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    def get(self, key: str) -> StoredObject:
        data, etag, _ = self._read(key)
        return StoredObject(data, etag)

    def get_if_small(self, key: str, most: int) -> StoredObject | None:
        # A byte more than that tells a larger one, and leaves the connection to be used again.
        try:
            data, etag, _ = self._read(key, Range=f"bytes=0-{most}")
        except BeyondEndError:  # an empty object has no first byte
            return self.get(key)
        return StoredObject(data, etag) if len(data) <= most else None

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        # S3 cannot say an empty range, and a key that is missing must be noticed all the same.
        end = offset + max(length, 1) - 1
        try:
            data, _, is_part = self._read(key, Range=f"bytes={offset}-{end}")
        except BeyondEndError:
            return b""
        if not is_part:  # a service that ignores ranges sends the whole object
            data = data[offset:]
        return data[: max(length, 0)]

    def pieces(self, key: str, length: int) -> Iterator[bytes]:
        offset, same = 0, dict[str, str]()
        while True:
            part = f"bytes={offset}-{offset + length - 1}"
            try:
                data, etag, is_part = self._read(key, Range=part, **same)
            except BeyondEndError:
                return
            if data:
                yield data
            offset, same = offset + len(data), {"IfMatch": etag}
            if len(data) < length or not is_part:
                return

    def etag(self, key: str) -> str:
        """Return an object's etag.

        Raises:
            KeyMissingError: There is no such object.
        """
        try:
            return self._read(key, Range="bytes=0-0")[1]  # HEAD does not say what is missing
        except BeyondEndError:  # there is nothing in it
            return ""

    # Whatever is written here outlasts a power cut.
    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:  # noqa: ARG002
        # Where boto3 repeats a request whose answer was lost, the repetition finds the key
        # taken: by us. Callers that can tell their own bytes read it back.
        return self._put("create", key, data, IfNoneMatch="*")

    def replace(
        self,
        key: str,
        data: bytes,
        etag: str | None,
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> str:
        if etag is None:
            return self._put("replace", key, data)
        try:
            return self._put("replace", key, data, IfMatch=etag)
        except KeyMissingError as error:
            raise KeyExistsError(f"{self._errors.where(key)} is missing") from error
        except KeyExistsError:
            if not in_doubt():
                raise
        return confirm_replacement(self, key, data, self._errors.where(key))

    def clock_ahead(self) -> float | None:
        return clock_ahead(self._client)

    def first_key(self) -> str | None:
        with self._errors.map_boto_errors("list", ""):
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._base, MaxKeys=1)
        return next((str(one["Key"])[len(self._base) :] for one in page.get("Contents", ())), None)

    def clone(self, source: str, key: str, size: int) -> None:
        if size > COPY_BYTES:
            super().clone(source, key, size)
            return
        origin = {"Bucket": self._bucket, "Key": self._name(source)}
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        begin_write()
        with self._errors.map_boto_errors("copy", source, write=True):
            self._client.copy_object(**target, CopySource=origin)

    def write_page(self, key: str, data: bytes, media_type: str) -> None:
        self._put("replace", key, data, ContentType=media_type)

    def delete(self, key: str) -> None:
        name = self._name(key)
        with suppress(KeyMissingError), self._errors.map_boto_errors("delete", key):
            self._client.delete_object(Bucket=self._bucket, Key=name)

    def folders(self, prefix: str) -> Sequence[str]:
        names = {
            common["Prefix"].rstrip("/").rpartition("/")[2]
            for page in self._pages(prefix, Delimiter="/")
            for common in page.get("CommonPrefixes", ())
        }
        return sorted(names - {""})

    def list(self, prefix: str) -> Iterator[Listed]:
        for page in self._pages(prefix):
            with self._errors.map_boto_errors("list", prefix):
                found = [self._listed(item) for item in page.get("Contents", ())]
            # Consoles make empty objects named like folders.
            yield from (one for one in found if not one.key.endswith("/"))

    def _listed(self, item: Any) -> Listed:
        key = str(item["Key"][len(self._base) :])
        return Listed(key, item["Size"], item["LastModified"].timestamp())

    def stage(self) -> Staged:
        return SpooledFile(self.upload, self.delete)

    def stage_resumable(self) -> Staged:
        return SpooledFile(self._upload_resumable, self.delete)

    def begun(self, prefix: str) -> Sequence[Begun]:
        return self._uploads.begun(prefix)

    def leftovers(self) -> Iterator[Leftover]:
        yield from self._uploads.unfinished()
        for item in self.list(STAGING):  # of a probe that died, or shared by a writer
            yield Leftover(item.key, item.size, item.modified, certain=False)

    def remove_leftover(self, leftover: Leftover) -> None:
        if not self._uploads.abort(leftover):
            self.delete(leftover.name)

    def copies(self) -> Iterator[StoredCopy]:
        return self._versions.copies()

    def earlier(self, prefix: str) -> Iterator[StoredCopy]:
        """List what objects below a prefix were before; not what they are."""
        return self._versions.earlier(prefix)

    def delete_earlier(self, copies: Sequence[StoredCopy]) -> Sequence[StoredCopy]:
        """Delete some of :meth:`earlier` for good; return those that are left, and why."""
        return self._versions.delete(copies)

    def read_copy(self, copy: StoredCopy, offset: int, length: int) -> bytes:
        return self._versions.read(copy, offset, length)

    def stage_in_parts(self) -> Staged:
        return SpooledFile(self._uploads.send, self.delete)

    def upload(self, path: Path, size: int, key: str) -> None:
        """Publish a local file; see :meth:`Staged.publish`."""
        if size < uploads.PART_BYTES:
            with path.open("rb") as file:
                self.put_if_absent(key, file.read(size))
        elif self.exists(key):  # S3 looks only once all parts are there
            raise KeyExistsError(f"{self._errors.where(key)} is taken")
        else:  # when busy, S3 wants the whole upload anew
            until_decided(lambda: self._uploads.send(path, size, key))

    def _upload_resumable(self, path: Path, size: int, key: str) -> None:
        if size < RESUMED_BYTES:
            self.upload(path, size, key)
        elif self.exists(key):
            raise KeyExistsError(f"{self._errors.where(key)} is taken")
        else:
            self._uploads.go_on(path, size, key)

    def _put(self, action: str, key: str, data: bytes, **condition: str) -> str:
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        begin_write()

        def put() -> str:
            with self._errors.map_boto_errors(action, key, write=True):
                return str(self._client.put_object(**target, Body=data, **condition)["ETag"])

        return until_decided(put)

    def _read(self, key: str, **ranged: str) -> tuple[bytes, str, bool]:
        target = {"Bucket": self._bucket, "Key": self._name(key), **ranged}
        data, answer = bodies.read(self._client, self._errors, key, target, whole=not ranged)
        return data, str(answer.get("ETag", "")), "ContentRange" in answer

    def _pages(self, prefix: str, **more: str) -> Iterator[Any]:
        folder = f"{self._name(prefix.rstrip('/'))}/" if prefix else self._base
        paginator = self._client.get_paginator("list_objects_v2")
        pages = iter(paginator.paginate(Bucket=self._bucket, Prefix=folder, **more))
        while True:
            with self._errors.map_boto_errors("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _name(self, key: str) -> str:
        return keys.object_name(self._base, key)
