"""Large files on their way to S3, in parts; and the parts that dead writers left."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from singerlake.errors import StoreError
from singerlake.storage import keys
from singerlake.storage.base import KeyExistsError
from singerlake.storage.s3.boto_errors import begin_write
from singerlake.storage.s3.prefix import BelowPrefix
from singerlake.storage.unfinished import Begun, Leftover

PART_BYTES = 16 * 2**20
"""Files below this go up in one request, others in parts of at least this."""

MAX_PARTS = 10_000
PARALLEL_PARTS = 4


class Uploads(BelowPrefix):
    """Uploads in parts to what lies below a prefix of a bucket."""

    def __init__(self, *below: Any) -> None:
        super().__init__(*below)
        self._found: dict[str, str] = {}

    def send(self, path: Path, size: int, key: str) -> None:
        """Publish a local file, however small; see :meth:`Staged.publish`."""
        upload = self._start(key)
        try:
            self._complete(upload, key, self._send_parts(upload, path, size, key, {}))
        except BaseException:
            # No part is under way any more. Parts that nobody completes would cost money and
            # show nowhere. An upload that was completed after all is out of abort's reach.
            self._abort(upload)
            raise

    def go_on(self, path: Path, size: int, key: str) -> None:
        """Do the same, and go on with what :meth:`begun` found under that key.

        Where it breaks off, what was sent stays, for who goes on with it.
        """
        found = self._found.pop(key, "")
        upload = {**self._target(key), "UploadId": found} if found else self._start(key)
        try:
            parts = self._parts(upload, key) if found else ()
            there = {part["PartNumber"]: part["ETag"] for part in parts}
            self._complete(upload, key, self._send_parts(upload, path, size, key, there))
        except KeyExistsError:
            self._abort(upload)  # the name is taken: nothing comes of this one any more
            raise

    def begun(self, prefix: str) -> Sequence[Begun]:
        """List uploads to keys that begin alike; see :meth:`Store.begun`."""
        found = {}
        for upload in sorted(self._listed(prefix), key=lambda one: one["Initiated"]):
            key = self._key(upload)
            self._found[key] = str(upload["UploadId"])
            found[key] = Begun(key, upload["Initiated"].timestamp())
        return [*found.values()]

    def _target(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": keys.object_name(self._base, key)}

    def _start(self, key: str) -> dict[str, str]:
        target = self._target(key)
        with self._errors.map_boto_errors("create", key):
            return {
                **target,
                "UploadId": self._client.create_multipart_upload(**target)["UploadId"],
            }

    def _send_parts(
        self, upload: Mapping[str, str], path: Path, size: int, key: str, there: Mapping[int, str]
    ) -> list[dict[str, Any]]:
        """Send a file's parts, but for those that are there."""
        part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))

        def part(number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * part_bytes)
                data = file.read(min(part_bytes, size - file.tell()))
            etag = there.get(number, "")
            # Of a part that S3 encrypts by a key of KMS it is no MD5, and the part goes up anew.
            if not etag or etag != f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"':
                with self._errors.map_boto_errors("create", key), self._ended_by_others(key):
                    answer = self._client.upload_part(**upload, PartNumber=number, Body=data)
                    etag = answer["ETag"]
            return {"PartNumber": number, "ETag": etag}

        with ThreadPoolExecutor(PARALLEL_PARTS) as pool:
            return [*pool.map(part, range(1, -(-size // part_bytes) + 1))]

    def _complete(
        self, upload: Mapping[str, str], key: str, parts: Sequence[Mapping[str, Any]]
    ) -> None:
        begin_write()
        with (
            self._errors.map_boto_errors("create", key, write=True),
            self._ended_by_others(key),
        ):
            self._client.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )

    def _listed(self, prefix: str) -> list[Any]:
        where = self._where(prefix)
        with self._errors.map_boto_errors("list unfinished uploads in", ""):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(**where)
            return [upload for page in pages for upload in page.get("Uploads", ())]

    def _parts(self, upload: Mapping[str, str], key: str) -> list[Any]:
        """What the store has of one; nothing where it is gone, or credentials do not allow that."""
        found: list[Any] = []
        with suppress(StoreError), self._errors.map_boto_errors("list the parts of", key):
            for page in self._client.get_paginator("list_parts").paginate(**upload):
                found += page.get("Parts", ())
        return found

    @contextmanager
    def _ended_by_others(self, key: str) -> Iterator[None]:
        """Take an upload that is not there any more for a key that is.

        Who else went on with it has completed it, or a vacuum has ended it: then its key is
        nobody's any more.
        """
        try:
            yield
        except self._client.exceptions.NoSuchUpload:
            where = self._errors.where(key)
            raise KeyExistsError(
                f"the upload of {where} was completed or aborted by another process"
            ) from None

    def _abort(self, upload: Mapping[str, str]) -> None:
        with suppress(Exception):
            self._client.abort_multipart_upload(**upload)

    def unfinished(self) -> Iterator[Leftover]:
        """List uploads that nobody has completed; one may be under way.

        Each is as old as its newest part: somebody may have gone on with it.
        """
        for upload in self._listed(""):
            key = self._key(upload)
            parts = self._parts({**self._target(key), "UploadId": upload["UploadId"]}, key)
            times = [part["LastModified"].timestamp() for part in parts]
            yield Leftover(
                f"{key}?uploadId={upload['UploadId']}",
                sum(part["Size"] for part in parts),
                max(upload["Initiated"].timestamp(), *times, 0.0),
                certain=False,
            )

    def abort(self, leftover: Leftover) -> bool:
        """Abort one of :meth:`unfinished`; whether it was one of these."""
        key, of_upload, upload = leftover.name.rpartition("?uploadId=")
        if not of_upload:
            return False
        target = {**self._target(key), "UploadId": upload}
        gone = suppress(self._client.exceptions.NoSuchUpload)
        with self._errors.map_boto_errors("abort the upload of", key, write=True), gone:
            self._client.abort_multipart_upload(**target)
        return True
