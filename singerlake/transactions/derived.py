"""What is written after a commit: manifest, catalogue, the lake's own file.

All three can be made again from the log, so a crash before or between them loses nothing,
and every writer brings them up to date for the writers that died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec

from singerlake.errors import ConflictError, DamagedError, LockTimeoutError, NewerFormatError
from singerlake.format import metadata, names
from singerlake.format.log import SchemaEntry
from singerlake.format.metadata import Catalogue, CatalogueEntry, LakeFile, TapEntry
from singerlake.format.names import TableName
from singerlake.storage.base import KeyExistsError, KeyMissingError, OversizedError, Store
from singerlake.transactions.checkpoint import to_manifest
from singerlake.transactions.lock import WriterLock, new_writer_id
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
T = TypeVar("T", bound=msgspec.Struct)
MAX_TAIL = 256
READABLE_BLOCKS = 1000
ATTEMPTS = 10
"""Times that the lock on what several streams share may be lost before it is given up."""

_lake_files: WeakKeyDictionary[Store, LakeFile] = WeakKeyDictionary()
"""The lake's file as it was read last, by store: one reading serves all that a process asks of
it. What it says of taps and of the store is never taken back."""


def checkpoint_due(snapshot: Snapshot) -> bool:
    """Whether the manifest should be written again.

    After every commit while the log is short, then after each 1 % of it, so that a commit
    pays for about a hundred transactions' worth of manifest however long the history; never
    more than 256 apart, which is what a reader then has to read one by one.
    """
    return snapshot.head - snapshot.checkpoint >= min(MAX_TAIL, 1 + snapshot.checkpoint // 100)


def write_checkpoint(store: Store, snapshot: Snapshot) -> None:
    """Write the manifest, unless somebody has written a later one meanwhile.

    What is there is read only where it is not what the snapshot was folded from. It is not
    durable: after a power cut it may be cut or of zeros, and readers then take the log, until
    the next one is written. The first hundred commits each write one; waiting for the disk
    would make them a third longer.
    """
    key = snapshot.table.manifest
    data = metadata.encode(to_manifest(snapshot), indent=snapshot.last_block <= READABLE_BLOCKS)
    etag = snapshot.checkpoint_etag
    known = store.keeps_conditions and (etag is not None or not snapshot.checkpoint)
    while True:
        try:
            if not known:
                present = store.get(key)
                etag = present.etag
                if _transaction(present.data, key) >= snapshot.head:
                    break
        except KeyMissingError:
            etag = None
        except OversizedError:
            etag = store.replace(key, data, None, durable=False)  # whatever it was, no manifest
            break
        try:
            if etag is None:
                etag = store.put_if_absent(key, data, durable=False)
            else:
                etag = store.replace(key, data, etag, durable=False)
            break
        except KeyExistsError:
            known = False
    snapshot.checkpoint, snapshot.checkpoint_etag = snapshot.head, etag


def _transaction(data: bytes, key: str) -> int:
    """The one that a manifest is folded up to; 0 for one that cannot be read."""
    try:
        return metadata.decode(data, metadata.Manifest, key).transaction
    except NewerFormatError:
        raise
    except DamagedError:
        return 0  # and so to be replaced


def update_catalogue(store: Store, table: TableName, schema: SchemaEntry) -> None:
    """Bring a stream's entry in its tap's catalogue up to date."""
    update_catalogue_entries(store, table.tap, [catalogue_entry(table, schema)])


def update_catalogue_entries(store: Store, tap: str, entries: Iterable[CatalogueEntry]) -> None:
    """Bring some streams' entries in a tap's catalogue up to date, all at once."""
    new = {entry.tap_stream_id: entry for entry in entries}

    def change(present: Catalogue) -> Catalogue | None:
        old = {entry.tap_stream_id: entry for entry in present.streams}
        if all(old.get(stream) == entry for stream, entry in new.items()):
            return None
        return Catalogue(streams=[entry for _, entry in sorted({**old, **new}.items())])

    _merge(store, names.catalogue(tap), Catalogue, change)


def catalogue_names(store: Store, table: TableName) -> bool:
    """Whether a tap's catalogue has a stream, as it does once something was committed of it."""
    key = names.catalogue(table.tap)
    try:
        found = metadata.decode(store.get(key).data, Catalogue, key)
    except (KeyMissingError, DamagedError):
        return False
    return any(entry.tap_stream_id == table.stream for entry in found.streams)


def read_lake_file(store: Store) -> LakeFile | None:
    """The lake's file; None where there is none.

    Raises:
        NewerFormatError: A newer release wrote it.
        DamagedError: It cannot be read. It is derived, so that need stop nobody.
    """
    try:
        found = metadata.decode(store.get(names.LAKE).data, LakeFile, names.LAKE)
    except KeyMissingError:
        return None
    _lake_files[store] = found
    return found


def seen_lake_file(store: Store) -> LakeFile | None:
    """The lake's file as this process has read it, else as it is; None where it is of no use.

    Raises:
        NewerFormatError: A newer release wrote it.
    """
    if (seen := _lake_files.get(store)) is not None:
        return seen
    try:
        return read_lake_file(store)
    except NewerFormatError:
        raise
    except DamagedError:
        return None


def names_tap(store: Store, tap: str) -> bool:
    """Whether the lake's file named a tap when this process last read it."""
    seen = _lake_files.get(store)
    return seen is not None and tap in seen.taps


def update_lake_file(store: Store, tap: str) -> None:
    """Make sure that the lake's file names a tap."""

    def change(present: LakeFile) -> LakeFile | None:
        if tap in present.taps:
            return None
        present.taps[tap] = TapEntry()
        return present

    _merge(store, names.LAKE, LakeFile, change)


def update_lake_facts(store: Store, *, conditional_writes: bool) -> LakeFile:
    """Record in the lake's file what a probe of the store found.

    Where another found otherwise at the same time, what is less to rely on counts.

    Returns:
        The lake's file as it is now.
    """
    found = LakeFile()

    def change(present: LakeFile) -> LakeFile | None:
        nonlocal found
        found = present
        here = present.probed == store.uri
        kept = conditional_writes and not (here and present.conditional_writes is False)
        if here and present.conditional_writes is kept:
            return None
        present.conditional_writes, present.probed = kept, store.uri
        return present

    _merge(store, names.LAKE, LakeFile, change)
    return found


def catalogue_entry(table: TableName, schema: SchemaEntry) -> CatalogueEntry:
    """A stream's entry in a Singer catalog."""
    breadcrumbs = [
        {
            "breadcrumb": ["properties", name],
            "metadata": {
                "inclusion": "automatic" if name in schema.key_properties else "available"
            },
        }
        for name in schema.schema.get("properties", {})
    ]
    stream = {"inclusion": "available", "table-key-properties": schema.key_properties}
    return CatalogueEntry(
        tap_stream_id=table.stream,
        stream=table.stream,
        key_properties=schema.key_properties,
        schema=schema.schema,
        metadata=[{"breadcrumb": [], "metadata": stream}, *breadcrumbs],
    )


def _merge(store: Store, key: str, kind: type[T], change: Callable[[T], T | None]) -> None:
    """Read, change and write back, again and again until nobody came in between."""
    while True:
        value, etag = _read(store, key, kind)
        changed = change(value)
        if changed is None:
            return
        if not store.keeps_conditions:
            _merge_alone(store, key, kind, change)
            return
        try:
            if etag is None:
                store.put_if_absent(key, metadata.encode(changed))
            else:
                store.replace(key, metadata.encode(changed), etag)
            return
        except KeyExistsError:
            continue


def _merge_alone(store: Store, key: str, kind: type[T], change: Callable[[T], T | None]) -> None:
    """The same where the store does not tell whether somebody came in between."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with WriterLock(store, names.LAKE_LOCK, new_writer_id()) as lock:
                changed = change(_read(store, key, kind)[0])
                if changed is not None:
                    lock.check()
                    store.replace(key, metadata.encode(changed), None)
            return
        except LockTimeoutError:
            raise
        except ConflictError:
            if attempt == ATTEMPTS:
                raise


def _read(store: Store, key: str, kind: type[T]) -> tuple[T, str | None]:
    """A derived file and its etag; empty where it cannot be read, without etag where it is not.

    Raises:
        OversizedError: It is far too large for one.
        DamagedError: Something stands there that is no file, and cannot be replaced as one.
    """
    try:
        present = store.get(key)
    except KeyMissingError:
        return kind(), None
    try:
        return metadata.decode(present.data, kind, key), present.etag
    except NewerFormatError:
        raise
    except DamagedError as error:
        logger.warning("%s; making it anew", error)
    return kind(), present.etag
