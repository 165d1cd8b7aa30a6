"""The lake's own file: its taps, what people say of it, and what a probe of its store found.

A damaged one stops no commit: what writers need of it can be found again. What people say is
nowhere else, so whoever changes the file keeps the members that this release does not know, and a
JSON object of which a member is damaged is left for people to correct.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import metadata, names
from singerlake.format.metadata import LAKE_FORMAT, LakeFile
from singerlake.format.sealed import UNREADABLE
from singerlake.storage.base import Capabilities, KeyExistsError, KeyMissingError, Store

if TYPE_CHECKING:
    from singerlake.log.shared_file import Present

logger = logging.getLogger(__name__)
_ANYTHING = msgspec.json.Decoder()


def read(store: Store) -> LakeFile | None:
    """Read the lake's file; None where there is none.

    Raises:
        NewerFormatError: A newer release wrote it.
        DamagedError: It cannot be read. No commit need fail for that.
    """
    try:
        return metadata.decode(store.get(names.LAKE).data, LakeFile, names.LAKE)
    except KeyMissingError:
        return None


def read_if_readable(store: Store) -> LakeFile | None:
    """Read the lake's file; None where it is missing or damaged.

    Raises:
        NewerFormatError: A newer release wrote it.
    """
    try:
        return read(store)
    except DamagedError:
        return None


def recorded_capabilities(store: Store, file: LakeFile | None) -> Capabilities | None:
    """Say what a lake's file tells of its store; None where it was never probed there."""
    if file is None or file.conditional_writes is None or file.probed != store.uri:
        return None
    return capabilities_of(store, file, supports_conditional_writes=file.conditional_writes)


def capabilities_of(
    store: Store, file: LakeFile | None, *, supports_conditional_writes: bool
) -> Capabilities:
    """What a store can be relied on for, with the time to settle that a lake's file may say."""
    seconds = file.lock_settle_seconds if file is not None else None
    if seconds is None:
        seconds = store.default_settle_seconds
    return Capabilities(supports_conditional_writes, max(0.0, seconds))


def change(
    store: Store,
    edit: Callable[[dict[str, Any]], bool],
    capabilities: Capabilities | None = None,
) -> None:
    """Change the lake's file, so that of two who do it at once both come through.

    What it holds is handed over as it is spelled, so that members of a newer release stay.

    Args:
        store: The lake's store.
        edit: Changes it, and says whether it did. Called again where another was sooner.
        capabilities: The store's, where it is not open for writing yet.

    Raises:
        NewerFormatError: A newer release wrote the file.
        DamagedError: It is a JSON object with members of other types than expected.
        LockTimeoutError: On a store that ignores conditions, another held the lock too long.
    """
    from singerlake.log.shared_file import merge  # late: with locks, which no reader needs

    def edited(present: dict[str, Any]) -> dict[str, Any] | None:
        return present if edit(present) else None

    merge(store, names.LAKE, lambda: _read_or_new(store), edited, capabilities, sure=True)


def add_tap(store: Store, tap: str) -> None:
    """Make sure that the lake's file names a tap."""

    def edit(present: dict[str, Any]) -> bool:
        taps = present.setdefault("taps", {})
        new = tap not in taps
        taps.setdefault(tap, {})
        return new

    change(store, edit)


def record_capabilities(store: Store, capabilities: Capabilities) -> LakeFile:
    """Record in the lake's file what a probe of the store found.

    Where another found otherwise at the same time, what is less to rely on counts.

    Returns:
        The lake's file as it is now.
    """
    file: dict[str, Any] = {}

    def edit(present: dict[str, Any]) -> bool:
        nonlocal file
        file = present
        here = present.get("probed") == store.uri
        ignored_before = here and present.get("conditional_writes") is False
        kept = capabilities.supports_conditional_writes and not ignored_before
        if here and present.get("conditional_writes") is kept:
            return False
        present["conditional_writes"], present["probed"] = kept, store.uri
        return True

    change(store, edit, capabilities)
    return metadata.decode(metadata.encode(file), LakeFile, names.LAKE)


def _read_or_new(store: Store) -> Present[dict[str, Any]]:
    """The lake's file as it is spelled, and its etag; a new one where there is none.

    What is no JSON object is kept under another name before a new one takes its place.

    Raises:
        NewerFormatError: A newer release wrote the file.
        DamagedError: It is a JSON object with members of other types than expected: to replace it
            would take away what people wrote into it, and they can correct it.
    """
    new = _new()
    try:
        present = store.get(names.LAKE)
    except KeyMissingError:
        return new, None
    try:
        content = _ANYTHING.decode(present.data)
    except UNREADABLE:
        content = None
    if not content or not isinstance(content, dict):  # {} says nothing, and has nothing to keep
        _keep_aside(store, present.data)
        return new, present.etag
    try:
        metadata.decode(present.data, LakeFile, names.LAKE)
    except DamagedError as error:
        raise DamagedError(
            f"{error}: correct it by hand, because it contains annotations"
        ) from None
    return content, present.etag


def _new() -> dict[str, Any]:
    """A new lake's file: its format and taps first, then what people may fill in."""
    members = msgspec.to_builtins(LakeFile())
    del members["published"]  # nothing that people fill in
    return {"format": LAKE_FORMAT, "taps": {}, **members}


def _keep_aside(store: Store, data: bytes) -> None:
    aside = ""
    if data.strip(b"\0 \n"):  # of zeros or empty after a power cut: nothing to keep
        key = names.damaged_lake(hashlib.sha256(data).hexdigest()[:16])
        with suppress(KeyExistsError):
            store.put_if_absent(key, data)
        aside = f", and keeping the old one as {key}"
    logger.warning("%s is not a JSON object; creating a new one%s", names.LAKE, aside)
