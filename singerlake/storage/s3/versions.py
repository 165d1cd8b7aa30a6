"""What a bucket keeps below a lake's prefix: objects, what they were before, and half uploads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from singerlake.errors import StoreError
from singerlake.storage.base import StoredCopy
from singerlake.storage.s3 import bodies
from singerlake.storage.s3.boto_errors import BeyondEndError
from singerlake.storage.s3.prefix import BelowPrefix

MOST_AT_ONCE = 1000
"""Versions that one request may delete."""


class Versions(BelowPrefix):
    """The versions of objects below a prefix of a bucket."""

    def copies(self) -> Iterator[StoredCopy]:
        """List all; where the service refuses to list what it keeps, one copy says so."""
        try:
            yield from self._objects()
        except StoreError as error:
            yield StoredCopy("", 0, unreadable=f"earlier versions of objects: {error}")
            yield from self._present()
        try:
            yield from self._uploads()
        except StoreError as error:
            yield StoredCopy("", 0, unreadable=f"multipart uploads: {error}")

    def earlier(self, prefix: str) -> Iterator[StoredCopy]:
        """List what objects below a prefix were before; not what they are."""
        return (copy for copy in self._objects(prefix) if copy.version)

    def delete(self, copies: Sequence[StoredCopy]) -> list[StoredCopy]:
        """Delete earlier versions for good; return those that are left, each with the reason."""
        left = []
        for start in range(0, len(copies), MOST_AT_ONCE):
            some = copies[start : start + MOST_AT_ONCE]
            named = [{"Key": f"{self._base}{one.key}", "VersionId": one.version} for one in some]
            try:
                with self._errors.map_boto_errors("delete earlier versions in", ""):
                    answer = self._client.delete_objects(
                        Bucket=self._bucket, Delete={"Objects": named, "Quiet": True}
                    )
            except StoreError as error:
                left += [one._replace(unreadable=str(error)) for one in some]
                continue
            whys = {
                (str(one.get("Key")), str(one.get("VersionId"))): str(
                    one.get("Message") or one.get("Code") or "refused"
                )
                for one in answer.get("Errors", ())
            }
            for one in some:
                if why := whys.get((f"{self._base}{one.key}", one.version)):
                    left.append(one._replace(unreadable=why))
        return left

    def _objects(self, below: str = "") -> Iterator[StoredCopy]:
        for page in self._pages("list_object_versions", "list the versions in", below):
            for one in page.get("Versions", ()):
                version = "" if one.get("IsLatest") else str(one["VersionId"])
                yield StoredCopy(self._key(one), int(one["Size"]), version)

    def _present(self) -> Iterator[StoredCopy]:
        for page in self._pages("list_objects_v2", "list"):
            for one in page.get("Contents", ()):
                yield StoredCopy(self._key(one), int(one["Size"]))

    def _uploads(self) -> Iterator[StoredCopy]:
        why = "an incomplete multipart upload, whose parts S3 does not let anyone read"
        for page in self._pages("list_multipart_uploads", "list unfinished uploads in"):
            for one in page.get("Uploads", ()):
                if str(one["Key"]).startswith(self._base):  # not every service looks at the prefix
                    yield StoredCopy(self._key(one), 0, str(one["UploadId"]), why)

    def read(self, copy: StoredCopy, offset: int, length: int) -> bytes:
        """Read part of a copy; fewer bytes where it ends earlier.

        Raises:
            KeyMissingError: It is gone.
        """
        name = {"Bucket": self._bucket, "Key": f"{self._base}{copy.key}"}
        if copy.version:
            name["VersionId"] = copy.version
        if offset >= copy.size:
            return b""
        part = f"bytes={offset}-{offset + length - 1}"
        try:
            target = {**name, "Range": part}
            data, answer = bodies.read(self._client, self._errors, copy.key, target, whole=False)
        except BeyondEndError:
            return b""
        return data if "ContentRange" in answer else data[offset:][:length]

    def _pages(self, request: str, action: str, below: str = "") -> Iterator[Any]:
        where = self._where(below)
        pages = self._client.get_paginator(request).paginate(**where)
        listed = iter(pages)
        while True:
            with self._errors.map_boto_errors(action, ""):
                page = next(listed, None)
            if page is None:
                return
            yield page
