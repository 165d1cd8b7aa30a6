"""The index: a table's state at one transaction as Parquet, beside the lake's raw data.

A cache, and treated as one. Only the marker makes an index: it is written last, with
put-if-absent, and names the files. It is left aside and made again where it belongs to
another log (its commit id differs), is damaged, or names files that are missing, of
another size or of other bytes. Deleting the folder at any time loses nothing but time.

How one is made is in ``snapshot/building.py``; how it is read in ``sql/state/index_rows.py``, and
without Spark in ``state_reader.py``.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from singerlake.errors import DamagedError, DataError
from singerlake.format import metadata, names
from singerlake.format.metadata import INDEX_FORMAT, IndexFile, IndexMarker
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import DELETED, DIGEST, PROVENANCE
from singerlake.rows.blocks.misfits import key_ways_out
from singerlake.rows.state.parquet_parts import Part, PartReader
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.storage.base import KeyExistsError, KeyMissingError

logger = logging.getLogger(__name__)
ATTEMPTS = 10


@dataclass(frozen=True)
class Index:
    """A finished index.

    Attributes:
        table: Whose.
        snapshot: The table at the transaction that the index is filed under.
        shape: The table's columns and keys then.
        marker: What the index records of itself.
        below: The index that this one is a layer on; None where it holds a whole state.
    """

    table: Table
    snapshot: TableState
    shape: Shape
    marker: IndexMarker
    below: Index | None = None

    @property
    def parts(self) -> list[Part]:
        """Its files on the store."""
        folder = self.table.name.index(self.marker.transaction, self.marker.types)
        return [Part(folder + file.path, file.hash) for file in self.marker.files]

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns of ours that its own files have, behind the table's."""
        return PROVENANCE if self.below is None else (*PROVENANCE, DELETED)

    def reader(self, *, digests: bool = False) -> PartReader:
        """Make what reads its own files in Python, with or without the records' digests."""
        left_out = frozenset[str]() if digests else frozenset((DIGEST,))
        names = [*self.shape.aliases, *self.own_columns]
        return PartReader(self.table.store, self.parts, names, left_out)

    @property
    def misfits(self) -> set[int]:
        """Indexes of the columns that may have values which do not fit."""
        counted = self.marker.misfits
        own = {index for index, name in enumerate(self.shape.names) if name in counted}
        return own if self.below is None else own | self.below.misfits

    def with_keys(self) -> Index:
        """Return it to somebody who finds rows by their keys.

        Raises:
            DamagedError: A column of the key would have to round some of its values.
        """
        for index in self.shape.keys:
            if index in self.misfits:
                name = self.shape.names[index]
                way = key_ways_out(self.table.name, name, rounds=True)
                raise DamagedError(
                    f"{self.table.name} has rows whose {name!r} its column would round, {way}"
                )
        return self

    @property
    def bytes(self) -> int:
        """Size of its files, and of those below."""
        below = self.below.bytes if self.below is not None else 0
        return below + sum(file.bytes for file in self.marker.files)


def folder_of(table: Table, snapshot: TableState) -> str:
    """Return the key prefix of the index of a state, which nobody shares who reads it otherwise."""
    return table.name.index(snapshot.number, snapshot.rules)


def load(table: Table, snapshot: TableState) -> Index | None:
    """Load a snapshot's index; None where there is none that can be used.

    What is in its files is not looked at: see :func:`sound`, and ``PartReader``.
    """
    folder = folder_of(table, snapshot)
    try:
        data = table.store.get(folder + names.INDEX_MARKER).data
        marker = metadata.decode(data, IndexMarker, folder + names.INDEX_MARKER)
    except KeyMissingError:
        return None
    except DataError as error:
        logger.warning("%s; recreating the materialized snapshot", error)
        return None
    if marker.format < INDEX_FORMAT:
        logger.info(
            "an earlier release created the materialized snapshot %s; recreating it", folder
        )
        return None
    expected = (snapshot.number, snapshot.commit, snapshot.schema_hash, snapshot.erased_at)
    if (marker.transaction, marker.commit, marker.schema_hash, marker.erased) != expected:
        # Of another log, or from before rows were erased: it has these still.
        logger.info(
            "the materialized snapshot %s does not belong to the current log; recreating it",
            folder,
        )
        return None
    if marker.types != snapshot.rules:
        logger.info(
            "the materialized snapshot %s was created under other rules of types; recreating it",
            folder,
        )
        return None
    if any(not names.is_index_part(file.path) for file in marker.files):
        logger.warning(
            "the materialized snapshot %s lists files that are not its own; recreating it", folder
        )
        return None
    present = {item.key: item.size for item in table.store.list(folder)}
    if any(present.get(folder + file.path) != file.bytes for file in marker.files):
        logger.warning("files of the materialized snapshot %s are missing; recreating it", folder)
        return None
    below = None
    if marker.base:
        below = _below(table, snapshot, marker.base)
        if below is None:
            logger.warning(
                "the base of the materialized snapshot %s is missing; recreating it", folder
            )
            return None
    return Index(table, snapshot, shape_of(snapshot), marker, below)


def sound(table: Table, snapshot: TableState) -> Index | None:
    """Load a snapshot's index, where its files are as they were written.

    Spark's own reader of Parquet proves its pages by their checksums, and nothing proves a
    file's footer. So files that it reads are held against their hashes before, once a process;
    ``PartReader``, which has a file's bytes whole, does it whenever it reads.
    """
    index = load(table, snapshot)
    if index is None:
        return None
    if (part := unsound(index)) is not None:
        logger.warning(
            "%s has changed since it was written; recreating the materialized snapshot", part.key
        )
        return None
    return index


def unsound(index: Index) -> Part | None:
    """Find a file of an index, or of the one below, that is not as it was written.

    Only files in a folder of this machine are looked at.
    """
    store = index.table.store
    for part in [*index.parts, *(index.below.parts if index.below is not None else [])]:
        path = store.local_path(part.key)
        if path is not None and not is_sound(path, part.hash):
            return part
    return None


def _below(table: Table, snapshot: TableState, number: int) -> Index | None:
    """The index of a whole state that a layer lies on."""
    if not 0 < number < snapshot.number:
        return None
    # It is read from its own files: whether the blocks are still there does not matter.
    below = load(table, snapshot.filed(number))
    return below if below is not None and below.below is None else None


def drop(table: Table, snapshot: TableState) -> None:
    """Delete a transaction's index, marker first, so that nobody trusts what is left of it."""
    folder = folder_of(table, snapshot.earliest_equal())
    table.store.delete(folder + names.INDEX_MARKER)
    for item in list(table.store.list(folder)):
        table.store.delete(item.key)


def finish(
    table: Table,
    snapshot: TableState,
    shape: Shape,
    written: Iterable[Mapping[str, Any]],
    below: Index | None = None,
) -> Index:
    """Make an index of files that are written, by its marker; one that is there already stays.

    Args:
        table: The table.
        snapshot: The table at the transaction.
        shape: Its shape then.
        written: What a ``PartWriter`` gave for each file.
        below: The index that this one is a layer on.
    """
    rows = list(written)
    files = [IndexFile(w["path"], w["rows"], w["bytes"], w["hash"]) for w in rows]
    files.sort(key=lambda file: file.path)
    marker = IndexMarker(
        format=INDEX_FORMAT,
        transaction=snapshot.number,
        commit=snapshot.commit,
        schema_hash=snapshot.schema_hash,
        rows=sum(file.rows for file in files) if below is None else None,
        files=files,
        base=0 if below is None else below.marker.transaction,
        misfits=_summed((json.loads(w["misfits"]) for w in rows), shape),
        types=snapshot.rules,
        erased=snapshot.erased_at,
    )
    kept = publish(Index(table, snapshot, shape, marker, below))
    for file in files:
        # By its files, not by who wrote the marker: where a reply was lost, the one there is ours.
        if file not in kept.marker.files:
            table.store.delete(folder_of(table, snapshot) + file.path)
    return kept


def _summed(counts: Iterable[dict[str, int]], shape: Shape) -> dict[str, int]:
    """Misfits by column name, from those of each file by column index."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update({shape.names[int(column)]: count for column, count in one.items()})
    return dict(sorted(total.items()))


def publish(made: Index) -> Index:
    """Write the marker; where another was sooner and theirs is good, take theirs.

    Returns:
        The index that is there now.
    """
    table, snapshot = made.table, made.snapshot
    key = folder_of(table, snapshot) + names.INDEX_MARKER
    data = metadata.encode(made.marker)
    for _ in range(ATTEMPTS):
        try:
            table.store.put_if_absent(key, data)
            return made
        except KeyExistsError:
            pass
        if (theirs := sound(table, snapshot)) is not None:
            return theirs
        try:
            table.store.replace(key, data, table.store.get(key).etag)
            return made
        except (KeyExistsError, KeyMissingError):
            continue
    return made  # others keep changing it; our files are on the store all the same


# Checks once whether a file on this machine's disks is as it was written.
#
# A file is checked again when its size, its times or its inode are others than when it was sound;
# what changes none of these (a bit that a disk turned) is seen by the next process, and by every
# ``verify``.

_Seen = tuple[int, int, int, int]
_sound: dict[tuple[Path, str], _Seen] = {}
_MOST = 100_000


def is_sound(path: Path, expected: str) -> bool:
    """Tell whether a file's bytes have a hash; False too where it cannot be read."""
    try:
        status = path.stat()
        seen = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        if _sound.get((path, expected)) == seen:
            return True
        hashed = blake3(max_threads=blake3.AUTO)
        hashed.update_mmap(path)
    except OSError:
        return False
    if hashed.hexdigest() != expected:
        return False
    if len(_sound) >= _MOST:
        _sound.clear()
    _sound[path, expected] = seen
    return True
