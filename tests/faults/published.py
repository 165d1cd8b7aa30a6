"""Publishing, with faults on both stores: the lake's, and that of the place beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pyarrow.parquet as pq

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.freeze import freeze
from singerlake.ops.publish.publish import publish
from singerlake.publish.projection import Format, OrderKey, Projection, Target
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.faults import plain
from tests.faults.faulty_store import FaultyStore, Kind
from tests.faults.operations import TAP, WIDE, Operation, write_options
from tests.faults.plain import Dump, Row

OPENING = "singerlake.publish.destinations.opening.open_store"


class Beside(FaultyStore):
    """The store of a place beside the lake: its operations are counted with the lake's.

    Args:
        inner: The store that works.
        lake: Counts them, and goes wrong.
    """

    def __init__(self, inner: Store, lake: FaultyStore) -> None:
        super().__init__(inner)
        self._lake = lake

    @property
    def _kind(self) -> Kind:
        return self._lake._kind

    @_kind.setter
    def _kind(self, kind: Kind) -> None:
        pass

    @property
    def next_strikes(self) -> bool:
        return self._lake.next_strikes

    def do(self, method: str, key: str, effect: Callable[[], Any], data: bytes = b"") -> Any:
        return self._lake.do(method, f"beside/{key}", effect, data)


@contextmanager
def opened_beside(store: Store) -> Iterator[None]:
    """Destinations are on stores that go wrong as the lake's does."""
    if not isinstance(store, FaultyStore):
        yield
        return

    def commit(works: Callable[..., Any]) -> Callable[..., Any]:
        # deltalake writes its log by itself: one file that must not be there yet.
        return lambda *args, **more: store.do(
            "publish", "beside/_delta_log/", lambda: works(*args, **more)
        )

    from deltalake import DeltaTable
    from deltalake.table import TableAlterer

    from singerlake.publish.destinations.delta import destination as delta

    with (
        mock.patch(OPENING, lambda uri, _: Beside(LocalStore(Path(uri)), store)),
        mock.patch.object(
            delta, "create_table_with_add_actions", commit(delta.create_table_with_add_actions)
        ),
        mock.patch.object(
            DeltaTable,
            "create_write_transaction",
            unbound(DeltaTable, "create_write_transaction", commit),
        ),
        mock.patch.object(
            TableAlterer,
            "set_table_properties",
            unbound(TableAlterer, "set_table_properties", commit),
        ),
    ):
        yield


def unbound(
    kind: type, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    """A method that is wrapped, to be put in its own place."""
    wrapped = wrap(getattr(kind, name))
    return lambda self, *args, **more: wrapped(self, *args, **more)


class Publish(Operation):
    """A staging table is refreshed, and what is published of it: one row changed, came and went."""

    name = "publish"
    spark = True
    table = f"{TAP}.t"
    format: ClassVar[Format] = Format.PARQUET
    stage: ClassVar[TableName | None] = TableName("staging", "t")
    versions: ClassVar[bool] = False
    first: ClassVar[bool] = False
    before: ClassVar[list[Row]] = [{"id": 1, "name": "x"}, {"id": 2, "name": None}]
    after: ClassVar[list[Row]] = [{"id": 1, "name": "y"}, {"id": 3, "name": "z"}]

    def prepare(self, lake: Lake) -> None:
        self.place = Path(lake.store.uri).parent / "place"
        commit_rows(lake, self.table, WIDE, ["id"], [*self.before])
        if not self.first:
            self.run(lake.store, Path())
        gone = {"id": 2, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        commit_rows(lake, self.table, WIDE, ["id"], [*self.after, gone])
        if self.versions:
            freeze(lake.find(self.table)[0], None, self.choice())
        self.kept = self.place.with_name("place-before")
        self.place.mkdir(exist_ok=True)
        shutil.copytree(self.place, self.kept)

    def fresh(self) -> None:
        shutil.rmtree(self.place)
        shutil.copytree(self.kept, self.place)

    def projection(self) -> Projection:
        return Projection(
            name="t",
            sql=f"select id, name from {self.table.replace('-', '_')}",
            sources=(self.table.replace("-", "_"),),
            stage=self.stage,
            key=("id",),
            order_by=(OrderKey("id"),),
            target=Target(str(self.place), self.format),
            versions=self.versions,
        )

    def choice(self) -> EngineChoice:
        """What reads the rows."""
        from singerlake.engine.spark.jvm.session import session

        return EngineChoice.of(spark=session("local[2]"))

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        choice = self.choice()
        waits = partial(ChangeOptions, writing=write_options(again=again))
        with opened_beside(store), mock.patch("singerlake.ops.publish.stage.ChangeOptions", waits):
            (outcome,) = publish(Lake(store), [self.projection()], None, choice)
        if outcome.error is not None:
            raise outcome.error

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        if self.stage is not None:
            staged = plain.tables(dump).get(str(self.stage))
            rows = None if staged is None else whole(staged.state())
            assert rows == self.after if done else rows in (self.before, self.after)
        shown, versions = self.seen()
        nothing = None if self.first else self.before
        assert shown == self.after if done else shown in (nothing, self.after)
        assert versions == ({1: self.after} if done and self.versions else {}) or (
            not done and self.versions and versions == {1: self.after}
        )

    def seen(self) -> tuple[list[Row] | None, dict[int, list[Row]]]:
        """What readers find who know nothing of Singerlake: the rows, and the versions."""
        pointer = self.place / "_latest.json"
        if not pointer.exists():
            return None, {}
        said = json.loads(pointer.read_bytes())
        found = {int(n): self.folder(one["folder"]) for n, one in said["versions"].items()}
        return self.folder(said["folder"]), found

    def folder(self, name: str) -> list[Row]:
        """All files of a folder, which are all of its rows."""
        files = sorted((self.place / name).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def whole(rows: list[Row]) -> list[Row]:
    """Rows with the members that JSON leaves out."""
    return [{"name": None, **row} for row in rows]


class PublishFirst(Publish):
    """The first publication, with a version, into an empty place."""

    name = "publish, first"
    stage: ClassVar[TableName | None] = None
    versions: ClassVar[bool] = True
    first: ClassVar[bool] = True


class PublishIceberg(Publish):
    """A refresh and a version, as an Iceberg table."""

    name = "publish, Iceberg"
    format: ClassVar[Format] = Format.ICEBERG
    stage: ClassVar[TableName | None] = None
    versions: ClassVar[bool] = True

    def seen(self) -> tuple[list[Row] | None, dict[int, list[Row]]]:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("default", uri=f"sqlite:///{self.place / 'catalog.db'}")
        table = catalog.load_table("singerlake.t")
        versions = {
            int(name[1:]): in_order(table.scan(snapshot_id=ref.snapshot_id).to_arrow().to_pylist())
            for name, ref in table.metadata.refs.items()
            if name != "main"
        }
        rows = in_order(table.scan().to_arrow().to_pylist())
        catalog.engine.dispose()
        return rows, versions


class PublishDelta(Publish):
    """The same as a Delta table; deltalake's threads do not come along into a fork."""

    name = "publish, Delta"
    forks = False
    format: ClassVar[Format] = Format.DELTA
    stage: ClassVar[TableName | None] = None
    versions: ClassVar[bool] = True

    def seen(self) -> tuple[list[Row] | None, dict[int, list[Row]]]:
        from deltalake import DeltaTable

        table = DeltaTable(self.place)
        said = json.loads(table.history(1)[0]["singerlake"])
        versions = {
            int(number): self.at(int(where.rpartition(" ")[2]))
            for number, where in said["versions"].items()
        }
        return self.at(table.version()), versions

    def at(self, version: int) -> list[Row]:
        """The rows of one version of the table."""
        from deltalake import DeltaTable

        files = DeltaTable(self.place, version=version).file_uris()
        return in_order([row for file in files for row in pq.read_table(file).to_pylist()])


def in_order(rows: list[Row]) -> list[Row]:
    """Rows by their key."""
    return sorted(rows, key=lambda row: row["id"])


PUBLISHING: tuple[Callable[[], Operation], ...] = (
    Publish,
    PublishFirst,
    PublishIceberg,
    PublishDelta,
)
