"""The bytes of objects, asked for again where they break off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singerlake.errors import SingerlakeError
from singerlake.storage.base import check_size
from singerlake.storage.s3.boto_errors import ErrorMapper

TRIES = 3
CHUNK_BYTES = 1 << 20
"""What is read at a time of an answer that does not say how long it is."""


def read(
    client: Any, errors: ErrorMapper, key: str, target: Mapping[str, str], *, whole: bool
) -> tuple[bytes, Any]:
    """Read an object, or a part of one, and return it with the answer.

    Args:
        client: boto3's.
        target: What is asked for, as boto3 names it.
        whole: Whether it is all of an object, which may be larger than any of ours.

    Raises:
        KeyMissingError: There is no such object.
        OversizedError: It is too large to be read whole.
        StoreError: The store refused, or the answer broke off at every attempt.
    """
    left = TRIES
    while True:
        left -= 1
        with errors.map_boto_errors("read", key):
            answer = client.get_object(**target)
            body = answer["Body"]
            try:
                return _whole(answer, errors.where(key)) if whole else bytes(body.read()), answer
            except SingerlakeError:
                body.close()  # not to be read to its end for another request
                raise
            except Exception:  # boto3 repeats only up to the headers, and not the body
                if not left:
                    raise


def _whole(answer: Any, where: str) -> bytes:
    """Read the body of an answer, and no more of it than an object may have.

    Raises:
        OversizedError: It has more.
    """
    body = answer["Body"]
    if (length := answer.get("ContentLength")) is not None:
        check_size(length, where)
        return bytes(body.read())
    data = bytearray()  # a proxy that sends it on in chunks says no length
    while piece := body.read(CHUNK_BYTES):
        data += piece
        check_size(len(data), where)
    return bytes(data)
