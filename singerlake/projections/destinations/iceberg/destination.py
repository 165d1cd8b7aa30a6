"""A projection published as an Iceberg table: a snapshot for each refresh, tags for versions."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import SetCurrentSchemaUpdate
from pyiceberg.table.update.snapshot import ManageSnapshots

from singerlake.errors import UsageError
from singerlake.projections.destinations import claim
from singerlake.projections.destinations.base import Destination, new_folder, published_meanwhile
from singerlake.projections.destinations.iceberg import files, schema
from singerlake.projections.destinations.iceberg.catalog import CATALOG, key_of, opened
from singerlake.projections.destinations.iceberg.snapshots import overwrite
from singerlake.projections.destinations.iceberg.sweeping import HINT, Sweep
from singerlake.projections.files.parquet import Parquet
from singerlake.projections.projection import Projection, Target
from singerlake.projections.published import Commit, Position, Published
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
                f"no Iceberg table at {store.uri}: a table names its files, and readers of Iceberg "
                "do not know az://: publish it as Delta or Parquet there, or to s3:// or gs://"
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
            raise self._others(f"snapshot {snapshot.snapshot_id} was not made by Singerlake")
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
            f"the Iceberg table at {self.store.uri} is changed by somebody else, too ({why}): "
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
                f"the catalog takes no table {'.'.join(self._identifier)}: {error}"
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
                f"{target.identifier!r} does not name a table in a catalog: write namespace.table"
            )
        return parts
    name = projection.name.rstrip("/").rpartition("/")[2]
    return NAMESPACE, re.sub(r"[^A-Za-z0-9_]+", "_", name)


def _versions(table: Table) -> dict[int, str]:
    tags = ((_TAG.fullmatch(name), name) for name in table.metadata.refs)
    return {int(match[1]): f"tag {name}" for match, name in tags if match}
