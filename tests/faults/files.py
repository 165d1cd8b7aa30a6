"""Files beside rows, put to the test: stored, vacuumed, copied, exported, and read of a BATCH."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from singerlake import api
from singerlake.engine.choice import EngineChoice
from singerlake.files import stored
from singerlake.files.folder import Folder
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.vacuum.plan import DELETE
from singerlake.storage.base import Store
from target_singerlake.batches.files import LocalBatchFile
from tests.faults import plain
from tests.faults.copies import Copy, source_of
from tests.faults.faulty_store import FaultyStore
from tests.faults.operations import (
    ID,
    TAP,
    Operation,
    Target,
    vacuum_options,
    write_options,
)
from tests.faults.plain import Dump
from tests.faults.published import unbound
from tests.files.photos import FILE, forget
from tests.frozen import vacuum_here
from tests.ops.copy import world
from tests.target.batches import batch, jsonl
from tests.target.harness import record, run, schema, state

TABLE = f"{TAP}.keyed"
PHOTOS = {"id": {"type": "integer"}, "photo": {**FILE, "type": "object"}}
SCHEMA = schema("keyed", PHOTOS, ["id"])


def photo(id_: int, text: str) -> bytes:
    """A row whose file holds a text."""
    return record("keyed", {"id": id_, "photo": {"uri": f"data:,{text}"}})


def sync(lake: Lake, photos: dict[int, str]) -> None:
    """Rows with files come in, and no fault."""
    run(Path(lake.store.uri), [SCHEMA, *(photo(id_, text) for id_, text in photos.items())])


def contents(dump: Dump) -> dict[int, str]:
    """The text in each row's file."""
    table = plain.tables(dump)[TABLE]
    rows = {row["id"]: row["photo"]["path"] for row in table.state()}
    return {id_: dump[table.folder + path].decode() for id_, path in rows.items()}


def stored_files(dump: Dump) -> set[str]:
    """The files that are there, lists left out."""
    return {key for key in dump if "/files/" in key and "-" in key.rpartition("/")[2]}


class TargetFiles(Target):
    """Two commits with files: new ones, one that the table has, one that a row no longer names."""

    name = "target, files"
    parts = (
        [SCHEMA, photo(1, "a"), photo(3, "b"), state(1)],
        [SCHEMA, photo(1, "b"), photo(4, "c"), state(2)],
    )

    def prepare(self, lake: Lake) -> None:
        sync(lake, {1: "c", 2: "d"})

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        last = max(acknowledged, default=0)
        allowed = [{1: "c", 2: "d"}, {1: "a", 2: "d", 3: "b"}, {1: "b", 2: "d", 3: "b", 4: "c"}]
        assert contents(dump) in allowed[2 if done else last :]


class VacuumFiles(Operation):
    """A table whose history is dropped: of three files one goes, and a leftover."""

    name = "vacuum, files"

    def prepare(self, lake: Lake) -> None:
        for texts in ("ab", "bc"):
            sync(lake, dict(enumerate(texts)))
        table = lake.find(TABLE)[0]
        forget(table)
        left = f"files/{'0' * 2}/{'0' * 64}-{'0' * 16}"
        lake.store.put_if_absent(table.name.key(left), b"")

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        table = Lake(store).find(TABLE)[0]
        vacuum_here(table, vacuum_options((DELETE,), again=again))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        assert contents(dump) == {0: "b", 1: "c"}
        there = len(stored_files(dump))
        assert there == 2 if done else there in (2, 3, 4)


class CopyFiles(Copy):
    """A copy goes on: a file comes, and one goes that a vacuum deleted at the source."""

    name = "copy, files"
    states: ClassVar[list[Any]] = [{1: "a", 2: "b"}, {1: "c", 2: "b", 3: "b"}]

    def prepare(self, lake: Lake) -> None:
        source = Lake(source_of(lake.store))
        sync(source, {1: "a", 2: "b"})
        super().run(lake.store, Path())
        sync(source, {1: "c", 3: "b"})
        forget(source.find(TABLE)[0])
        world.delete(source, TABLE)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        # Entries of the log may be ahead of it: of those that follow without a gap it is made.
        log = f"raw/{TAP}/keyed/transactions/"
        numbers = sorted(int(key[len(log) : -5]) for key in dump if key.startswith(log))
        ahead = {f"{log}{n:012d}.json" for at, n in enumerate(numbers, 1) if n != at}
        found = contents({key: data for key, data in dump.items() if key not in ahead})
        assert found == self.states[-1] if done else found in self.states
        there = len(stored_files(dump))
        assert there == 2 if done else there in (2, 3)


class ExportFiles(Operation):
    """All files of a state into a folder, in which one is already."""

    name = "export, files"
    texts: ClassVar[dict[str, bytes]] = {"one/a": b"a", "one/b": b"b", "c": b"c"}

    def prepare(self, lake: Lake) -> None:
        self.folder = Path(lake.store.uri).parent / "exported"
        for name, text in self.texts.items():
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
        rows = [
            record("keyed", {"id": id_, "photo": {"uri": name}})
            for id_, name in enumerate(self.texts)
        ]
        config = {"file_roots": [str(self.folder)]}
        run(Path(lake.store.uri), [SCHEMA, *rows], **config)

    def fresh(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        (self.folder / "c").write_bytes(self.texts["c"])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        table = api.Lake(store).table(TABLE)
        found = stored.targets(table.at(engine="local").files())
        # One after the other, so that the k-th operation is always the same.
        with mock.patch("singerlake.files.stored.READERS", 1), table.lease():
            stored.export(store, table.name, found, self.folder)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        there = [path for path in self.folder.rglob("*") if path.is_file()]
        whole = [path for path in there if path.suffix != ".part"]
        found = {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in whole}
        assert found.items() <= self.texts.items()
        assert not done or found == self.texts
        assert len(plain.tables(dump)[TABLE].files()) == 3


class BatchCleanUp(Target):
    """Two commits of rows from files, each of which is deleted once its STATE is out."""

    name = "BATCH, clean-up"
    rows: ClassVar[list[list[dict[str, int]]]] = [[{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 3}]]
    keys: ClassVar[dict[str, list[str]]] = {"keyed": ["id"]}

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        self.folder = Path(lake.store.uri).parent / "batches"
        self.config = {"batch_clean_up": True, "batch_roots": [str(self.folder)]}  # type: ignore[misc]
        self.fresh()

    def fresh(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for number, rows in enumerate(self.rows, start=1):
            self.file(number).write_bytes(jsonl(rows))

    def file(self, number: int) -> Path:
        """The file that the tap left for a STATE."""
        return self.folder / str(number)

    def lines(self, last: int) -> list[bytes]:
        found = [schema("keyed", ID, ["id"])]
        for number in range(last + 1, 3):
            found += [batch("keyed", self.file(number)), state(number)]
        return found

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        with counted_removals(store):
            super().run(store, acknowledged, again=again)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        last = max(acknowledged, default=0)
        ids = [{1, 9}, {1, 2, 9}, {1, 2, 3, 9}]
        found = {row["id"] for row in plain.tables(dump)[TABLE].state()}
        assert found in ids[2 if done else last :]
        for number in (1, 2):
            assert number <= last or self.file(number).exists(), "it went before its STATE was out"


class UploadFolder(Operation):
    """A folder again: of its files some are new, changed or gone, and two have the same bytes."""

    name = "upload, folder"
    spark = True
    table = "archive.docs"
    before: ClassVar[dict[str, str]] = {"a": "1", "b": "2", "in/c": "3"}
    after: ClassVar[dict[str, str]] = {"a": "1", "b": "4", "d": "5", "in/e": "5"}

    def prepare(self, lake: Lake) -> None:
        self.folder = Path(lake.store.uri).parent / "docs"
        self._write(self.before)
        self._upload(lake, TableName("archive", "docs"), again=False)
        self._write(self.after)

    def _write(self, texts: dict[str, str]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, text in texts.items():
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        lake = Lake(store)
        # One file after the other, so that the k-th operation is always the same.
        with mock.patch("singerlake.files.folder_rows.SIDE_BY_SIDE", 1):
            self._upload(lake, lake.find(self.table)[0], again=again)

    def _upload(self, lake: Lake, into: Table | TableName, *, again: bool) -> None:
        from singerlake.ops.upload.upload import UploadOptions
        from singerlake.ops.upload.upload_folder import upload_folder

        folder = Folder.named(str(self.folder), None)
        assert folder is not None
        options = UploadOptions(
            Mode.REPLACE, change=ChangeOptions(writing=write_options(again=again))
        )
        upload_folder(lake, into, folder, options, self.choice())

    def choice(self) -> EngineChoice:
        from singerlake.engine.spark.jvm.session import session

        return EngineChoice.of(spark=session("local[2]"))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        paths = {row["path"]: row["file"]["path"] for row in table.state()}
        found = {name: dump[table.folder + path].decode() for name, path in paths.items()}
        assert found == self.after if done else found in (self.before, self.after)


@contextmanager
def counted_removals(store: Store) -> Iterator[None]:
    """Deleting a file of a BATCH counts as an operation on the store, and can go wrong."""
    if not isinstance(store, FaultyStore):
        yield
        return

    def counted(works: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: store.do("delete", "beside/", lambda: works(*args))

    patched = unbound(LocalBatchFile, "remove", counted)
    with mock.patch.object(LocalBatchFile, "remove", patched):
        yield


FILES: tuple[Callable[[], Operation], ...] = (
    TargetFiles,
    VacuumFiles,
    CopyFiles,
    ExportFiles,
    BatchCleanUp,
)
UPLOADS: tuple[Callable[[], Operation], ...] = (UploadFolder,)
"""Those that are Spark's."""
