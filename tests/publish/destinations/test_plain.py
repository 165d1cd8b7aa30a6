"""Plain files behind a pointer, in a folder and in a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from singerlake.errors import ConflictError, DamagedError, NewerFormatError, UsageError
from singerlake.publish.destinations import plain
from singerlake.publish.destinations.base import Destination
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.destinations.plain import PlainDestination
from singerlake.publish.files import file_format
from singerlake.publish.projection import Format, PartitionKey, Projection
from singerlake.publish.published import Commit
from singerlake.storage.base import KeyExistsError
from singerlake.storage.s3.store import S3Store
from tests.publish.destinations.contract import (
    SCHEMA,
    DestinationContract,
    Opener,
    position,
    projection,
    rows,
    written,
)


def readers_rows(place: Destination, folder: str) -> list[tuple[object, ...]]:
    """All files of a folder, in the order of their names."""
    form, found = file_format(place.target.format), []
    for one in place.store.list(folder):
        if one.key.rpartition("/")[2].startswith("part-"):
            data = place.store.get(one.key).data
            for batch in form.read(pa.BufferReader(data), SCHEMA):
                found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


class PlainContract(DestinationContract):
    def read(self, place: Destination) -> list[tuple[object, ...]]:
        pointer = json.loads(place.store.get("_latest.json").data)
        found = readers_rows(place, pointer["folder"])
        assert len(found) == pointer["rows"]
        return found

    def read_version(self, place: Destination, version: int) -> list[tuple[object, ...]]:
        pointer = json.loads(place.store.get("_latest.json").data)
        return readers_rows(place, pointer["versions"][str(version)]["folder"])


class TestInAFolder(PlainContract):
    @pytest.fixture
    def wanted(self, tmp_path: Path) -> Projection:
        return projection(str(tmp_path / "people"), Format.PARQUET)

    @pytest.fixture
    def opener(self) -> Opener:
        return open_destination

    def test_no_folder_is_left_behind(self, place: Destination, tmp_path: Path) -> None:
        base = self.publish(place, 1, rows(1))
        self.publish(place, 2, rows(2), base=base)
        place.sweep(timedelta(0))
        names = sorted(path.name for path in (tmp_path / "people").iterdir())
        assert names[0] == ".staging"
        assert names[2:] == ["_latest.json", "_projection.json"]
        place.remove()
        assert [path.name for path in (tmp_path / "people").iterdir()] == [".staging"]

    def test_a_kept_file_takes_no_room(self, place: Destination, tmp_path: Path) -> None:
        base = self.publish(place, 1, rows(1))
        now = self.publish(place, 2, rows(2), base=base, kept=list(base.files))
        old, new = (tmp_path / "people" / one.files[0].path for one in (base, now))
        assert old != new
        assert old.samefile(new)


class TestAvroInAFolder(PlainContract):
    @pytest.fixture
    def wanted(self, tmp_path: Path) -> Projection:
        return projection(str(tmp_path / "people"), Format.AVRO, key=())

    @pytest.fixture
    def opener(self) -> Opener:
        return open_destination


class TestInABucket(PlainContract):
    @pytest.fixture
    def wanted(self, s3_store: S3Store) -> Projection:
        return projection(s3_store.uri, Format.PARQUET)

    @pytest.fixture
    def opener(self, s3_store: S3Store) -> Opener:
        def opened(wanted: Projection) -> Destination:
            assert wanted.target is not None
            return PlainDestination(wanted, wanted.target, s3_store)

        return opened


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlainDestination]:
    opened = open_destination(projection(str(tmp_path / "people"), Format.PARQUET))
    assert isinstance(opened, PlainDestination)
    yield opened


def publish(place: Destination, transaction: int, *batches: pa.RecordBatch) -> None:
    said = position(place.projection, transaction)
    place.commit(place.published(), Commit(said, SCHEMA, [], written(place, *batches)))


def ages(place: PlainDestination, monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """All that is there becomes older."""
    now = plain.times.now() + by
    monkeypatch.setattr(plain.times, "now", lambda: now)


def test_people_can_read_the_pointer(place: PlainDestination) -> None:
    publish(place, 1, rows(1, 2))
    said = json.loads(place.store.get("_latest.json").data)
    assert said["columns"] == {"id": "int64", "name": "string"}
    assert said["order_by"] == ["id"]
    assert said["rows"] == 2
    assert said["position"]["sources"][0]["table"] == "a.people"
    (file,) = said["files"]
    assert (file["rows"], file["low"], file["high"]) == (2, 1, 2)
    assert place.store.exists(f"{said['folder']}{file['path']}")


def test_a_task_that_ran_twice_doubles_nothing(place: PlainDestination) -> None:
    folder = place.folder()
    lost, kept = written(place, rows(1), rows(1), folder=folder)
    done = place.commit(None, Commit(position(place.projection, 1), SCHEMA, [], [kept]))
    assert readers_rows(place, folder) == [(1, "n1")]
    place.store.put_if_absent(lost.path, b"from a task that had been given up")
    assert place.sweep(timedelta(0)) == 1
    assert readers_rows(place, done.files[0].path.partition("/")[0] + "/") == [(1, "n1")]


def test_dead_runs_are_swept_and_others_not(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = written(place, rows(1))
    assert place.sweep(timedelta(0)) == 0, "it may be at work"
    publish(place, 1, rows(2))
    assert place.sweep(timedelta(0)) == 0, "clocks may differ"
    ages(place, monkeypatch, timedelta(hours=2))
    (live,) = written(place, rows(3))
    publish(place, 2, rows(4))
    place.sweep(timedelta(0))
    assert not place.store.exists(dead.path)
    assert place.store.exists(live.path)


def test_a_run_that_never_came_to_a_commit_is_swept_after_a_day(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = written(place, rows(1))
    ages(place, monkeypatch, timedelta(hours=23))
    assert place.sweep(timedelta(0)) == 0
    ages(place, monkeypatch, timedelta(hours=2))
    assert place.sweep(timedelta(0)) == 1
    assert not place.store.exists(dead.path)
    publish(place, 1, rows(1))


def test_a_version_that_a_dead_run_began_gets_another_folder(place: PlainDestination) -> None:
    publish(place, 1, rows(1))
    place.store.put_if_absent("v3/_version.json", b"{}")
    place.store.put_if_absent("v3/part-of-a-dead-run.parquet", b"")
    base = place.published()
    assert base is not None
    said = position(place.projection, 1)
    now = place.commit(base, Commit(said, SCHEMA, list(base.files), [], (), 3))
    assert now.versions[3].startswith("v3-")
    assert readers_rows(place, now.versions[3]) == [(1, "n1")]
    place.sweep(timedelta(0))
    assert [name for name in place.store.folders("") if name.startswith("v3")] == [
        now.versions[3].rstrip("/")
    ]


def test_a_folder_that_somebody_else_called_so_stays(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(place, 1, rows(1))
    base = place.published()
    assert base is not None
    place.store.put_if_absent("v9/mine.parquet", b"")
    place.store.put_if_absent("v3/_version.json", b"{}")  # by a run that died
    said = position(place.projection, 1)
    place.commit(base, Commit(said, SCHEMA, list(base.files), [], (), 1))
    ages(place, monkeypatch, timedelta(days=2))
    place.sweep(timedelta(0))
    assert {"v1", "v9"} < {*place.store.folders("")}
    place.remove()
    assert place.store.first_key() == "v9/mine.parquet"


def test_a_removal_that_was_cut_short_goes_on(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(place, 1, rows(1))

    def full(*_: object) -> int:
        raise OSError

    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(PlainDestination, "_delete", full)
        place.remove()
    assert place.published() is None
    place.remove()
    assert place.store.first_key() is None


def test_who_comes_second_leaves_nothing(place: PlainDestination) -> None:
    publish(place, 1, rows(1))
    base = place.published()
    files = written(place, rows(2))
    publish(place, 2, rows(3))
    before = place.store.folders("")
    said = position(place.projection, 2)
    with pytest.raises(ConflictError):
        place.commit(base, Commit(said, SCHEMA, [], files))
    assert len([*place.store.folders("")]) == len([*before]) - 1
    assert readers_rows(place, place.published().files[0].path.partition("/")[0])  # type: ignore[union-attr]


def test_a_commit_whose_answer_was_lost_stays_with_its_readers(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was published, and replaced before it was read back: that is told as a conflict."""
    publish(place, 1, rows(1))
    base = place.published()
    files = written(place, rows(2))
    replaced = place.store.replace

    def lost(key: str, data: bytes, etag: str | None) -> str:
        replaced(key, data, etag)
        with monkeypatch.context() as patched:
            patched.setattr(place.store, "replace", replaced)
            publish(place, 3, rows(3))
        raise KeyExistsError(key)

    monkeypatch.setattr(place.store, "replace", lost)
    with pytest.raises(ConflictError):
        place.commit(base, Commit(position(place.projection, 2), SCHEMA, [], files))
    assert readers_rows(place, files[0].path.partition("/")[0]) == [(2, "n2")]


def test_a_sweep_beside_a_slow_commit_is_a_conflict(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it builds on was replaced and deleted, after it had looked: no file is damaged."""
    publish(place, 1, rows(1))
    base = place.published()
    assert base is not None
    files = written(place, rows(2))
    clone = place.store.clone

    def late(*of: object) -> None:
        monkeypatch.setattr(place.store, "clone", clone)
        publish(place, 2, rows(3))
        place.sweep(timedelta(0))
        clone(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(place.store, "clone", late)
    with pytest.raises(ConflictError, match="another process published"):
        place.commit(base, Commit(position(place.projection, 2), SCHEMA, base.files, files))


def test_a_removal_leaves_nothing_of_who_is_at_work(place: PlainDestination) -> None:
    """Neither of a later commit, whose pointer is gone, nor of a first one, whose files are."""
    publish(place, 1, rows(1))
    base = place.published()
    begun = place.folder()
    place.remove()
    files = written(place, rows(2), folder=begun)
    said = position(place.projection, 2)
    with pytest.raises(ConflictError):
        place.commit(base, Commit(said, SCHEMA, [], files))
    assert place.store.first_key() is None

    first = written(place, rows(3))
    place.remove()
    with pytest.raises(ConflictError, match="deleted"):
        place.commit(None, Commit(said, SCHEMA, [], first))
    assert place.published() is None
    publish(place, 3, rows(4))


def test_a_removal_sees_what_is_published_meanwhile(
    place: PlainDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(place, 1, rows(1))
    delete, more = PlainDestination._delete_folder, [rows(2), rows(3)]

    def meanwhile(self: PlainDestination, name: str) -> int:
        if more:
            files = written(place, more.pop())
            place.commit(None, Commit(position(place.projection, 2), SCHEMA, [], files))
        return delete(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(PlainDestination, "_delete_folder", meanwhile)
        place.remove()
    assert place.store.first_key() is None
    with monkeypatch.context() as patched:
        publish(place, 4, rows(5))
        patched.setattr(PlainDestination, "_delete_folder", lambda *_: 0)
        with pytest.raises(ConflictError, match="is publishing people"):
            place.remove()
    place.remove()
    assert place.store.first_key() is None


def test_a_damaged_pointer_is_told(place: PlainDestination) -> None:
    publish(place, 1, rows(1))
    said = json.loads(place.store.get("_latest.json").data)
    for data, error in (
        (b"{}", DamagedError),
        (b"[]", DamagedError),
        (b"\xff", DamagedError),
        (json.dumps({**said, "files": [{}]}).encode(), DamagedError),
        (json.dumps({**said, "format": 2}).encode(), NewerFormatError),
    ):
        place.store.replace("_latest.json", data, None)
        with pytest.raises(error, match=r"_latest\.json"):
            place.published()


def test_a_file_that_somebody_deleted_is_told(place: PlainDestination) -> None:
    publish(place, 1, rows(1))
    base = place.published()
    assert base is not None
    place.store.delete(base.files[0].path)
    said = position(place.projection, 2)
    with pytest.raises(DamagedError, match="--full-refresh"):
        place.commit(base, Commit(said, SCHEMA, base.files, written(place, rows(2))))


def test_types_that_a_format_cannot_say(tmp_path: Path) -> None:
    asked = projection(str(tmp_path / "x"), Format.CSV)
    with pytest.raises(UsageError, match=r"csv has no type for column 'b' \(binary\).*base64"):
        open_destination(asked).file_schema(pa.schema([("b", pa.binary())]), None)
    assert not (tmp_path / "x").exists()


def test_columns_that_folders_say_are_left_out(tmp_path: Path) -> None:
    asked = projection(str(tmp_path / "x"), Format.CSV, partition_by=(PartitionKey("name"),))
    assert open_destination(asked).file_schema(SCHEMA, None).names == ["id"]
    every = replace(asked, partition_by=(PartitionKey("name"), PartitionKey("id")))
    with pytest.raises(UsageError, match="all of its columns"):
        open_destination(every).file_schema(SCHEMA, None)


def test_an_unknown_compression(tmp_path: Path) -> None:
    asked = projection(str(tmp_path / "x"), Format.CSV)
    assert asked.target is not None
    asked = replace(asked, target=replace(asked.target, compression="rar"))
    with pytest.raises(UsageError, match="'rar': use none, gzip, zstd"):
        open_destination(asked)
