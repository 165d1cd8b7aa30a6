"""Buckets and containers in which files of records lie, as settings and manifests name them."""

from __future__ import annotations

from singerlake.errors import UsageError
from singerlake.storage.opening import BUCKETS, FORMS, is_remote

_HADOOP = ("abfs:", "abfss:", "wasb:", "wasbs:")


def in_bucket(uri: str) -> bool:
    """Tell whether a place is in a bucket or container."""
    return uri[:5].lower().startswith(BUCKETS)


def split(uri: str, what: str) -> tuple[str, str]:
    """Take a place in a bucket apart.

    Args:
        uri: ``s3://bucket/prefix`` and the like.

    Returns:
        The bucket as a URI, and the prefix without slashes at its ends.

    Raises:
        UsageError: It is none.
    """
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme == "s3":
        from singerlake.storage.s3 import settings  # late: it brings boto3

        bucket, prefix = settings.split(uri, what)
    else:
        from singerlake.storage.object_store import locations

        _, bucket, prefix = locations.split(f"{scheme}://{rest}", what)
    return f"{scheme}://{bucket}", prefix


def refuse_elsewhere(uri: str, setting: str) -> None:
    """Refuse a place that is remote, and in no bucket by its plain name.

    Raises:
        UsageError: It is one.
    """
    if is_remote(uri) or uri.lower().startswith(_HADOOP):
        raise UsageError(
            f"{setting} names a place by a web address or as Hadoop does, where no files of "
            f"records can be: give {FORMS}"
        )
