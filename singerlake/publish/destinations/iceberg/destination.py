"""A projection published as an Iceberg table: a snapshot for each refresh, tags for versions."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import SetCurrentSchemaUpdate
from pyiceberg.table.update.snapshot import ManageSnapshots, _ManifestMergeManager, _OverwriteFiles

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.publish.destinations import claim
from singerlake.publish.destinations.base import Destination, new_folder, published_meanwhile
from singerlake.publish.destinations.iceberg import files, schema
from singerlake.publish.destinations.iceberg.catalog import CATALOG, OpenCatalog, key_of, opened
from singerlake.publish.files.parquet import Parquet
from singerlake.publish.projection import Projection, Target
from singerlake.publish.published import Commit, Position, Published
from singerlake.storage.base import Store

POSITION = "singerlake.position"
"""Of a snapshot's summary: which state of the lake it shows."""
COLUMNS = "singerlake.schema"
"""Of the table's properties: the columns of the rows in Arrow's words, which has more types."""
NAMESPACE = "singerlake"
KIND = "Iceberg"
ABOUT = "Rows published by Singerlake, as an Iceberg table."
_TAG = re.compile(r"v(\d+)")


class IcebergDestination(Destination):
    """An Iceberg table below one folder or prefix.

    Args:
        projection: Whose rows it holds.
        target: Where it is.
        store: The store of that place.

    Raises:
        UsageError: Iceberg has no word for such a place.
    """

    def __init__(self, projection: Projection, target: Target, store: Store) -> None:
        self.projection, self.target, self.store = projection, target, store
        Parquet().compression(target.compression)
        if store.uri.startswith("az://"):
            raise UsageError(
                f"no Iceberg table at {store.uri}: Iceberg tables contain the URIs of their files, "
                "and readers do not support az://: publish it as Delta or Parquet there, or to "
                "s3:// or gs://"
            )
        self._identifier = _identifier(projection, target)

    def file_schema(self, schema_: pa.Schema, base: Published | None) -> pa.Schema:
        """Number the columns, as the table numbers them or will."""
        new = schema.iceberg_schema(schema_)
        if base is None:
            return schema.with_numbers(schema_, new)
        with self._table() as table:
            transaction = self._begin(table, base)
            # As the commit will: columns of a version get the same numbers either way.
            schema.evolve(transaction, schema_, self.projection)
            return schema.with_numbers(schema_, transaction.table_metadata.schema())

    def published(self) -> Published | None:
        """Read the table's newest snapshot."""
        with self._table() as table:
            if table is not None:
                return self._published(table)
        claim.is_ours(self.store, self.projection.name, KIND)
        return None

    def folder(self) -> str:
        """Begin a folder of data files."""
        claim.claim(self.store, self.projection.name, KIND, ABOUT)
        return f"data/{new_folder()}"

    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Add one snapshot; with a version, a tag and no more than that where it is there."""
        if base is not None and commit.is_nothing(base):
            return base
        claim.claim(self.store, self.projection.name, KIND, ABOUT)
        with opened(self.store, self.target) as found:
            if base is None:
                transaction = self._create(found.catalog, commit)
            else:
                transaction = self._begin(self._load(found.catalog), base)
                self._evolve(transaction, commit)
            self._stage(transaction, base, commit)
            with found.committing():
                transaction.commit_transaction()
            # The catalog decides; the hint is for readers who do not ask it.
            table = found.catalog.load_table(self._identifier)
            self._hint(table)
            return self._published(table)

    def sweep(self, keep: timedelta) -> int:
        """Expire snapshots, then delete files that no snapshot names."""
        with opened(self.store, self.target) as found:
            if (table := self._load(found.catalog)) is None:
                return 0
            count = Sweep(self.store, found, table).run(keep)
            self._hint(found.catalog.load_table(self._identifier))
            return count

    def folders(self) -> tuple[str, ...]:
        """Give where data and metadata lie."""
        return "data/", "metadata/"

    def present_alone(self) -> set[str]:
        """Have one snapshot, and no tag; its manifests name no file that was removed."""
        with opened(self.store, self.target) as found:
            if (table := self._load(found.catalog)) is None:
                return set()
            base = self._published(table)
            transaction = self._begin(table, base)
            tags = ManageSnapshots(transaction)
            for name in [name for name in table.metadata.refs if name != "main"]:
                tags = tags.remove_tag(name)
            tags.commit()
            update = overwrite(transaction, {POSITION: base.position.to_json()}, "main", tidy=True)
            update.commit()
            with found.committing():
                transaction.commit_transaction()
            table = found.catalog.load_table(self._identifier)
            needed = Sweep(self.store, found, table).forget_all_but(update.snapshot_id)
            self._hint(found.catalog.load_table(self._identifier))
            return needed | {HINT}

    def remove(self) -> None:
        """Drop the table, then delete its files, the claim last."""
        if not claim.is_ours(self.store, self.projection.name, KIND):
            return
        with opened(self.store, self.target) as found:
            if self._load(found.catalog) is not None and found.file is None:
                with found.committing():
                    found.catalog.drop_table(self._identifier)
        self.store.delete(CATALOG)
        self.store.delete(HINT)
        for folder in ("metadata/", "data/"):
            for file in list(self.store.list(folder)):
                self.store.delete(file.key)
        self.store.delete(claim.CLAIM)

    @contextmanager
    def _table(self) -> Iterator[Table | None]:
        with opened(self.store, self.target) as found:
            yield self._load(found.catalog)

    def _load(self, catalog: Catalog) -> Table | None:
        try:
            table = catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        key_of(self.store, f"{table.location().rstrip('/')}/")
        return table

    def _published(self, table: Table) -> Published:
        snapshot = table.current_snapshot()
        if snapshot is None:
            raise self._others("it has no snapshot")
        said = snapshot.summary[POSITION] if snapshot.summary is not None else None
        if said is None or COLUMNS not in table.properties:
            raise self._others(f"snapshot {snapshot.snapshot_id} was not written by Singerlake")
        where = f"{self.store.uri}, snapshot {snapshot.snapshot_id},"
        position = Position.from_json(said, where)
        claim.check_name(self.store, position.projection, self.projection.name)
        rows = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(table.properties[COLUMNS])))
        order = [one.column for one in self.projection.order_by] or list(self.projection.key)
        found = files.published(
            files.live(snapshot, table.io),
            self.store,
            table.schema(),
            rows,
            next(iter(order), None),
        )
        return Published(position, rows, found, snapshot.snapshot_id, _versions(table))

    def _others(self, why: str) -> UsageError:
        return UsageError(
            f"the Iceberg table at {self.store.uri} is also changed by another writer ({why}): "
            "publish into a folder of your own"
        )

    def _begin(self, table: Table | None, base: Published) -> Transaction:
        """Begin a transaction on what was read; another state of it is a conflict."""
        snapshot = table.current_snapshot() if table is not None else None
        if table is None or snapshot is None or snapshot.snapshot_id != base.token:
            raise published_meanwhile(self.projection, self.store)
        # Not kept: whoever else commits may try as often as they like, but what was worked out
        # here holds for this snapshot alone.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return table.transaction()

    def _create(self, catalog: Catalog, commit: Commit) -> Transaction:
        columns = schema.iceberg_schema(commit.schema)
        try:
            catalog.create_namespace_if_not_exists(self._identifier[:-1])
            return catalog.create_table_transaction(
                self._identifier,
                columns,
                self.store.uri,
                schema.partition_spec(columns, self.projection.partition_by),
                schema.sort_order(columns, self.projection),
                self._properties(commit.schema),
            )
        except ValueError as error:  # of namespaces within others, say
            raise UsageError(
                f"the catalog rejected the table {'.'.join(self._identifier)}: {error}"
            ) from error

    def _properties(self, rows: pa.Schema) -> dict[str, str]:
        plain = rows.remove_metadata()
        order = ", ".join(str(one) for one in self.projection.order_by)
        return {
            COLUMNS: base64.b64encode(plain.serialize().to_pybytes()).decode(),
            "singerlake.projection": self.projection.name,
            "comment": f"{self.projection.name}, published by Singerlake"
            + (f", in the order of {order}" if order else ""),
        }

    def _evolve(self, transaction: Transaction, commit: Commit) -> None:
        if commit.version is not None:
            schema.evolve_columns(transaction, commit.schema)
            return
        schema.evolve(transaction, commit.schema, self.projection)
        properties = self._properties(commit.schema)
        if not properties.items() <= transaction.table_metadata.properties.items():
            transaction.set_properties(properties)

    def _stage(self, transaction: Transaction, base: Published | None, commit: Commit) -> None:
        """Put the snapshot, and the tag, into the transaction."""
        gone = {file.path for file in commit.gone(base)}
        if base is None or commit.version is None:
            snapshot_id = self._snapshot(transaction, commit, gone, "main")
        elif commit.added or gone:
            snapshot_id = self._snapshot(transaction, commit, gone, None)
            # The version's columns are those of its snapshot; the table keeps its own.
            back = SetCurrentSchemaUpdate.model_validate(
                {"schema-id": transaction._table.metadata.current_schema_id}
            )
            if transaction.table_metadata.current_schema_id != back.schema_id:
                transaction._stage((back,))
        else:
            snapshot_id = base.token
        if commit.version is not None:
            tags = ManageSnapshots(transaction)
            tags.create_tag(snapshot_id, f"v{commit.version}").commit()

    def _snapshot(
        self, transaction: Transaction, commit: Commit, gone: set[str], branch: str | None
    ) -> int:
        """Stage a snapshot that differs from the newest one by some files."""
        said = {POSITION: commit.position.to_json()}
        update = overwrite(transaction, said, branch)
        metadata = transaction.table_metadata
        before = metadata.current_snapshot()
        if gone and before is not None:
            for file in files.live(before, transaction._table.io):
                if key_of(self.store, file.file_path) in gone:
                    update.delete_data_file(file)
        for one in commit.added:
            update.append_data_file(files.named(one, metadata, self.projection))
        update.commit()
        return update.snapshot_id

    def _hint(self, table: Table) -> None:
        """Say which metadata is the newest, for readers that are given only the folder."""
        name = table.metadata_location.rpartition("/")[2].removesuffix(".metadata.json")
        if not self.store.exists(HINT) or self.store.get(HINT).data != name.encode():
            self.store.replace(HINT, name.encode(), None)


def _identifier(projection: Projection, target: Target) -> tuple[str, ...]:
    """The table's name in its catalog.

    Raises:
        UsageError: It is no name of a namespace and a table.
    """
    if target.identifier:
        parts = tuple(target.identifier.split("."))
        if len(parts) == 1 or not all(parts):
            raise UsageError(
                f"{target.identifier!r} is not a table name in a catalog: write namespace.table"
            )
        return parts
    name = projection.name.rstrip("/").rpartition("/")[2]
    return NAMESPACE, re.sub(r"[^A-Za-z0-9_]+", "_", name)


def _versions(table: Table) -> dict[int, str]:
    tags = ((_TAG.fullmatch(name), name) for name in table.metadata.refs)
    return {int(match[1]): f"tag {name}" for match, name in tags if match}


# Snapshots that take files away and add others, and keep a table's manifests few.

MANIFEST_BYTES = 8 << 20
"""How large a manifest becomes, as Iceberg has it by default."""
MANIFESTS = 32
"""How many small ones there may be. Whoever opens the table reads them all."""


class Overwrite(_OverwriteFiles):
    """An overwrite as pyiceberg's own, which merges manifests as its appends do.

    Else each refresh would leave two more, one of them with files that nobody sees any more.
    """

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        manager = _ManifestMergeManager(
            MANIFEST_BYTES, MANIFESTS, merge_enabled=True, snapshot_producer=self
        )
        merged: list[ManifestFile] = manager.merge_manifests(manifests)
        return merged


class Tidying(Overwrite):
    """A snapshot with the files of the one before, whose manifests tell of no file that is gone.

    An overwrite notes the files that it removes, with the bounds of their columns, and manifests
    are kept as they are from then on.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        before = self._transaction.table_metadata.snapshot_by_name(name=self._target_branch)
        found: list[ManifestFile] = []
        for manifest in before.manifests(io=self._io) if before is not None else ():
            if manifest.deleted_files_count == 0:
                found.append(manifest)
                continue
            live = manifest.fetch_manifest_entry(io=self._io, discard_deleted=True)
            if not live:
                continue
            with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
                for entry in live:
                    writer.add_entry(_existing(entry))
            found.append(writer.to_manifest_file())
        return found


def _existing(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def overwrite(
    transaction: Transaction, said: dict[str, str], branch: str | None, *, tidy: bool = False
) -> Overwrite:
    """Begin a snapshot.

    Args:
        transaction: Whose part it is.
        said: What its summary says.
        branch: The branch that it becomes the head of; None for a snapshot beside them.
        tidy: Whether its manifests are to name no file that was removed.
    """
    is_first = transaction.table_metadata.current_snapshot() is None
    kind = Tidying if tidy else Overwrite
    return kind(
        Operation.APPEND if is_first else Operation.OVERWRITE,
        transaction,
        transaction._table.io,
        snapshot_properties=said,
        branch=branch,
    )


# What no reader of an Iceberg table needs any more: old snapshots, and files that none names.

HINT = "metadata/version-hint.text"
"""Says which metadata is the newest, to readers that ask no catalog."""
SILENCE = timedelta(days=1)
"""A file that nothing names for so long is of a run that is dead."""


class Sweep:
    """One sweep of a table.

    Args:
        store: Where it lies.
        found: Its catalog.
        table: The table.
    """

    def __init__(self, store: Store, found: OpenCatalog, table: Table) -> None:
        self._store, self._found, self._table = store, found, table
        self._manifests: dict[str, set[str]] = {}

    def run(self, keep: timedelta) -> int:
        """Expire, and delete.

        Args:
            keep: How long what was replaced stays.

        Returns:
            How many files were deleted.
        """
        metadata = self._table.metadata
        expired = self._expired(keep)
        kept = [one for one in metadata.snapshots if one.snapshot_id not in expired]
        needed = self._named(kept)
        free = self._named(one for one in metadata.snapshots if one.snapshot_id in expired) - needed
        self._expire(expired)
        needed.add(key_of(self._store, self._table.metadata_location))
        return self._delete(needed, free, keep)

    def forget_all_but(self, snapshot_id: int) -> set[str]:
        """Expire all snapshots but one, and delete what only those named.

        Returns:
            The keys of the files that it needs, and of the table's metadata.
        """
        snapshots = self._table.metadata.snapshots
        needed = self._named(one for one in snapshots if one.snapshot_id == snapshot_id)
        others = [one for one in snapshots if one.snapshot_id != snapshot_id]
        free = self._named(others) - needed
        self._expire({one.snapshot_id for one in others})
        for key in free:
            self._store.delete(key)
        return needed | {key_of(self._store, self._table.metadata_location)}

    def _expire(self, expired: set[int]) -> None:
        if expired:
            expire = self._table.maintenance.expire_snapshots().by_ids(sorted(expired))
            with self._found.committing():
                expire.commit()

    def _expired(self, keep: timedelta) -> set[int]:
        """Find snapshots that were replaced longer ago, and that no branch or tag names."""
        metadata = self._table.metadata
        before = (times.now() - keep).timestamp() * 1000
        log = metadata.snapshot_log
        replaced = {
            one.snapshot_id: after.timestamp_ms
            for one, after in pairwise(log)
            if one.snapshot_id != after.snapshot_id
        }
        refs = {one.snapshot_id for one in metadata.refs.values()}
        return {
            one.snapshot_id
            for one in metadata.snapshots
            if one.snapshot_id not in refs
            and replaced.get(one.snapshot_id, one.timestamp_ms) <= before
        }

    def _named(self, snapshots: Iterable[Snapshot]) -> set[str]:
        """List the keys of all files that snapshots name."""
        io, keys = self._table.io, set()
        for snapshot in snapshots:
            keys.add(key_of(self._store, snapshot.manifest_list))
            for manifest in snapshot.manifests(io):
                path = manifest.manifest_path
                if path not in self._manifests:
                    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                    named = {key_of(self._store, one.data_file.file_path) for one in entries}
                    self._manifests[path] = named | {key_of(self._store, path)}
                keys |= self._manifests[path]
        return keys

    def _delete(self, needed: set[str], free: set[str], keep: timedelta) -> int:
        now = times.now()
        old = (now - keep).timestamp()
        dead = (now - max(keep, SILENCE)).timestamp()
        count = 0
        for folder in ("data/", "metadata/"):
            for file in list(self._store.list(folder)):
                # Metadata of former states only serves readers that began with it.
                former = file.key.endswith(".metadata.json")
                if file.key in needed or file.key == HINT:
                    continue
                if file.key in free or file.modified <= (old if former else dead):
                    self._store.delete(file.key)
                    count += 1
        return count
