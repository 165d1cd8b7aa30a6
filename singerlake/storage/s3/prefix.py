"""A prefix of a bucket, for the classes that list or write there."""

from __future__ import annotations

from typing import Any

from singerlake.storage.s3.boto_errors import ErrorMapper


class BelowPrefix:
    """A client, and the part of a bucket that it is for.

    Args:
        client: boto3's.
        base: The lake's prefix, with its slash; empty for the whole bucket.
    """

    def __init__(self, client: Any, bucket: str, base: str, errors: ErrorMapper) -> None:
        self._client = client
        self._bucket = bucket
        self._base = base
        self._errors = errors

    def _where(self, prefix: str = "") -> dict[str, str]:
        """Return what a request to list takes, for keys of the lake that begin so."""
        return {"Bucket": self._bucket, "Prefix": f"{self._base}{prefix}"}

    def _key(self, one: Any) -> str:
        """Return the lake's key of an item in a list."""
        return str(one["Key"])[len(self._base) :]
