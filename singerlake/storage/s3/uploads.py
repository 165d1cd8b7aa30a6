"""Large files on their way to S3, in parts; and the parts that dead writers left."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from singerlake.storage import keys
from singerlake.storage.base import Leftover
from singerlake.storage.s3.boto_errors import ErrorMapper, begin_write

PART_BYTES = 16 * 2**20
"""Files below this go up in one request, others in parts of at least this."""

MAX_PARTS = 10_000
PARALLEL_PARTS = 4


class Uploads:
    """Uploads in parts to what lies below a prefix of a bucket.

    Args:
        client: boto3's.
        bucket: The bucket.
        base: The lake's prefix, with its slash; empty for the whole bucket.
        errors: Turns errors into ours.
    """

    def __init__(self, client: Any, bucket: str, base: str, errors: ErrorMapper) -> None:
        self._client = client
        self._bucket = bucket
        self._base = base
        self._errors = errors

    def send(self, path: Path, size: int, key: str) -> None:
        """Publish a local file, however small; see :meth:`Staged.publish`."""
        target = {"Bucket": self._bucket, "Key": keys.object_name(self._base, key)}
        part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))
        with self._errors.map_boto_errors("create", key):
            started = self._client.create_multipart_upload(**target)
            upload = {**target, "UploadId": started["UploadId"]}

        def part(number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * part_bytes)
                data = file.read(min(part_bytes, size - file.tell()))
            with self._errors.map_boto_errors("create", key):
                answer = self._client.upload_part(**upload, PartNumber=number, Body=data)
                return {"PartNumber": number, "ETag": answer["ETag"]}

        try:
            with ThreadPoolExecutor(PARALLEL_PARTS) as pool:
                parts = [*pool.map(part, range(1, -(-size // part_bytes) + 1))]
            begin_write()
            with self._errors.map_boto_errors("create", key, write=True):
                self._client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
                )
        except BaseException:
            # No part is under way any more. Parts that nobody completes would cost money and
            # show nowhere. An upload that was completed after all is out of abort's reach.
            with suppress(Exception):
                self._client.abort_multipart_upload(**upload)
            raise

    def unfinished(self) -> Iterator[Leftover]:
        """List uploads that nobody has completed; one may be under way."""
        where = {"Bucket": self._bucket, "Prefix": self._base}
        with self._errors.map_boto_errors("list unfinished uploads in", ""):
            pages = list(self._client.get_paginator("list_multipart_uploads").paginate(**where))
        for upload in (upload for page in pages for upload in page.get("Uploads", [])):
            name = f"{upload['Key'][len(self._base) :]}?uploadId={upload['UploadId']}"
            yield Leftover(name, 0, upload["Initiated"].timestamp(), certain=False)

    def abort(self, leftover: Leftover) -> bool:
        """Abort one of :meth:`unfinished`; whether it was one of these."""
        key, of_upload, upload = leftover.name.rpartition("?uploadId=")
        if not of_upload:
            return False
        target = {
            "Bucket": self._bucket,
            "Key": keys.object_name(self._base, key),
            "UploadId": upload,
        }
        gone = suppress(self._client.exceptions.NoSuchUpload)
        with self._errors.map_boto_errors("abort the upload of", key, write=True), gone:
            self._client.abort_multipart_upload(**target)
        return True
