"""A replacement whose answer was lost: was it ours?"""

from __future__ import annotations

from singerlake.errors import OutcomeUnknownError, StoreError
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store


def confirm_replacement(store: Store, key: str, data: bytes, where: str) -> str:
    """Tell our own replacement, whose answer was lost, from another's; gives its etag.

    Args:
        store: Where it was made.
        key: The key.
        data: What we wrote.
        where: The key as messages name it.

    Raises:
        KeyExistsError: The object is gone, or another's.
        OutcomeUnknownError: It cannot be read.
    """
    try:
        present = store.get(key)
    except KeyMissingError as error:
        raise KeyExistsError(f"{where} is missing") from error
    except StoreError as error:
        raise OutcomeUnknownError(f"{error}; it may have been replaced before") from error
    if present.data != data:
        raise KeyExistsError(f"{where} was changed by another process")
    return present.etag
