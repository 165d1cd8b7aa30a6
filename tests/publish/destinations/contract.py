"""What every destination does. Each kind's test file subclasses this with its own fixtures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.errors import ConflictError, UsageError
from singerlake.ops.publish.write.published_files import FilesWriter
from singerlake.publish.destinations.base import Destination
from singerlake.publish.projection import Format, OrderKey, Projection, Target
from singerlake.publish.published import Commit, DataFile, Position, Published, SourceState

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
Opener = Callable[[Projection], Destination]


def projection(uri: str, format_: Format, **said: object) -> Projection:
    target = Target(uri, format_)
    said = {"key": ("id",), "order_by": (OrderKey("id"),), **said}
    return Projection("people", "select * from a.people", target=target, **said)  # type: ignore[arg-type]


def position(of: Projection, transaction: int) -> Position:
    source = SourceState("a.people", transaction, f"commit-{transaction}")
    return Position(of.name, of.definition, "a lake", (source,))


def rows(*ids: int | None, name: str = "n") -> pa.RecordBatch:
    names = [None if one is None else f"{name}{one}" for one in ids]
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), pa.array(names)], schema=SCHEMA)


def written(
    place: Destination, *batches: pa.RecordBatch, folder: str | None = None
) -> list[DataFile]:
    """Write a file of each batch, as an executor does."""
    schema = place.file_schema(SCHEMA, place.published())
    step = FilesWriter.of(place.projection, place, schema, folder)
    return [file for part, batch in enumerate(batches) for file in step.files(iter([batch]), part)]


def opened(place: Destination) -> Iterator[bytes]:
    """All that lies there, and what is within it as far as its format is known here."""
    for item in [*place.store.list("")]:
        data = place.store.get(item.key).data
        yield data
        if item.key.endswith(".parquet"):
            yield json.dumps(pq.read_table(io.BytesIO(data)).to_pylist(), default=str).encode()
        if item.key.endswith(".avro"):
            yield json.dumps([*fastavro.reader(io.BytesIO(data))], default=repr).encode()


class DestinationContract:
    """Subclasses have fixtures ``opener``, ``wanted`` (a projection), and read rows."""

    @pytest.fixture
    def place(self, opener: Opener, wanted: Projection) -> Destination:
        return opener(wanted)

    def read(self, place: Destination) -> list[tuple[object, ...]]:
        """What a reader who knows nothing of us finds, in any order."""
        raise NotImplementedError

    def read_version(self, place: Destination, version: int) -> list[tuple[object, ...]]:
        raise NotImplementedError

    def publish(
        self,
        place: Destination,
        transaction: int,
        *batches: pa.RecordBatch,
        base: Published | None = None,
        kept: list[DataFile] | None = None,
        removed: list[DataFile] | None = None,
        version: int | None = None,
    ) -> Published:
        said = Commit(
            position(place.projection, transaction),
            place.file_schema(SCHEMA, base),
            kept or [],
            written(place, *batches) if batches else [],
            removed or [],
            version,
        )
        return place.commit(base, said)

    def test_an_empty_place(self, place: Destination) -> None:
        assert place.published() is None
        assert place.sweep(timedelta(0)) == 0
        place.remove()
        assert place.published() is None

    def test_what_was_committed_is_told(self, place: Destination, opener: Opener) -> None:
        done = self.publish(place, 1, rows(1, 2, 5), rows(6, 7, None))
        for one in (place, opener(place.projection)):
            found = one.published()
            assert found is not None
            assert found.position == position(place.projection, 1) == done.position
            assert found.schema.names == ["id", "name"]
            assert found.token == done.token
            facts = {(f.rows, f.low, f.high, f.nulls) for f in found.files}
            assert facts == {(3, 1, 5, False), (3, 6, 7, True)}
            assert found.rows == 6
        assert self.read(place) == [
            (i, None if i is None else f"n{i}") for i in (1, 2, 5, 6, 7, None)
        ]

    def test_nothing_is_seen_before_the_commit(self, place: Destination) -> None:
        written(place, rows(1))
        assert place.published() is None
        done = self.publish(place, 1, rows(1, 2))
        written(place, rows(3))
        found = place.published()
        assert found is not None
        assert found.token == done.token
        assert self.read(place) == [(1, "n1"), (2, "n2")]

    def test_files_stay_come_and_go(self, place: Destination) -> None:
        base = self.publish(place, 1, rows(1, 2), rows(5, 6), rows(8))
        first, second, third = sorted(base.files, key=lambda file: file.low)
        base = self.publish(
            place, 2, rows(5, 7, name="m"), base=base, kept=[first, third], removed=[second]
        )
        assert sorted(self.read(place)) == [(1, "n1"), (2, "n2"), (5, "m5"), (7, "m7"), (8, "n8")]
        found = place.published()
        assert found is not None
        assert sorted(file.low for file in found.files) == [1, 5, 8]
        last = [file for file in base.files if file.low == 1]
        rest = [file for file in base.files if file.low != 1]
        self.publish(place, 3, base=base, kept=last, removed=rest)  # with no new file
        assert self.read(place) == [(1, "n1"), (2, "n2")]

    def test_the_position_moves_alone(self, place: Destination) -> None:
        base = self.publish(place, 1, rows(1, 2))
        moved = self.publish(place, 2, base=base, kept=list(base.files))
        found = place.published()
        assert found is not None
        assert found.position == moved.position == position(place.projection, 2)
        assert [file.path for file in found.files] == [file.path for file in base.files]
        assert self.read(place) == [(1, "n1"), (2, "n2")]

    def test_only_one_of_two_commits(self, place: Destination, opener: Opener) -> None:
        other = opener(place.projection)
        base = self.publish(place, 1, rows(1))
        self.publish(place, 2, rows(2), base=base, removed=list(base.files))
        with pytest.raises(ConflictError):
            self.publish(other, 3, rows(3), base=base, removed=list(base.files))
        assert self.read(other) == [(2, "n2")]

    def test_only_one_of_two_is_the_first(self, place: Destination, opener: Opener) -> None:
        late = opener(place.projection)
        files = written(late, rows(3))
        self.publish(place, 1, rows(1))
        said = position(place.projection, 1)
        with pytest.raises(ConflictError):
            late.commit(None, Commit(said, SCHEMA, [], files))
        assert self.read(place) == [(1, "n1")]

    def test_versions_lie_beside_the_rest(self, place: Destination) -> None:
        base = self.publish(place, 1, rows(1, 2))
        same = self.publish(place, 1, base=base, kept=list(base.files), version=1)
        assert self.read_version(place, 1) == self.read(place) == [(1, "n1"), (2, "n2")]
        other = self.publish(place, 9, rows(7), base=same, version=2)
        assert self.read(place) == [(1, "n1"), (2, "n2")]
        assert self.read_version(place, 2) == [(7, "n7")]
        assert set(other.versions) == {1, 2}
        assert other.position == base.position
        last = self.publish(place, 3, rows(3), base=other, removed=list(other.files))
        place.sweep(timedelta(0))
        assert set(last.versions) == {1, 2}
        assert self.read(place) == [(3, "n3")]
        assert self.read_version(place, 1) == [(1, "n1"), (2, "n2")]
        assert self.read_version(place, 2) == [(7, "n7")]

    def test_a_sweep_leaves_what_is_read(self, place: Destination) -> None:
        base = self.publish(place, 1, rows(1), rows(2))
        kept = [file for file in base.files if file.low == 1]
        gone = [file for file in base.files if file.low == 2]
        base = self.publish(place, 2, rows(3), base=base, kept=kept, removed=gone)
        place.sweep(timedelta(hours=1))
        assert all(place.store.exists(file.path) for file in (*gone, *base.files))
        assert place.sweep(timedelta(0)) >= 1
        assert not any(place.store.exists(file.path) for file in gone)
        assert sorted(self.read(place)) == [(1, "n1"), (3, "n3")]
        assert place.sweep(timedelta(0)) == 0

    def test_what_was_before_is_forgotten(self, place: Destination) -> None:
        """But what readers see, whatever comes after: nothing names a file that is gone."""
        base = self.publish(place, 1, rows(1, 2), rows(41))
        base = self.publish(place, 1, base=base, kept=list(base.files), version=1)
        base = self.publish(place, 9, rows(7), base=base, version=2)
        written(place, rows(6))  # of a run that died
        held = place.held()
        late = written(place, rows(8))
        base = self.publish(place, 3, rows(3), base=base, removed=list(base.files))
        assert place.forget(held) >= 4
        found = place.published()
        assert found is not None
        assert (found.versions, found.position) == ({}, base.position)
        assert self.read(place) == [(3, "n3")]
        kept = {file.path for file in (*found.files, *late)}
        assert kept <= {item.key for item in place.store.list("")}
        data = {item.key for item in place.store.list("") if "part-" in item.key}
        assert data == kept
        assert not any(b"n41" in content for content in opened(place))
        again = self.publish(place, 3, base=found, kept=list(found.files), version=3)
        assert self.read_version(place, 3) == [(3, "n3")]
        last = self.publish(place, 4, rows(4), base=again, kept=list(found.files))
        place.sweep(timedelta(0))
        assert sorted(self.read(place)) == [(3, "n3"), (4, "n4")]
        assert set(last.versions) == {3}
        place.forget(place.held())
        assert sorted(self.read(place)) == [(3, "n3"), (4, "n4")]

    def test_who_is_at_work_while_it_is_forgotten(self, place: Destination) -> None:
        """Whoever began before publishes nothing then, or their files would be missing."""
        base = self.publish(place, 1, rows(1))
        files = written(place, rows(2))
        held = place.held()
        now = self.publish(place, 3, rows(3), base=base, removed=list(base.files))
        place.forget(held)
        with pytest.raises(ConflictError):
            place.commit(base, Commit(position(place.projection, 2), SCHEMA, [], files))
        assert self.read(place) == [(3, "n3")]
        found = place.published()
        assert found is not None and found.position == now.position

    def test_nothing_is_forgotten_where_nothing_is(self, place: Destination) -> None:
        assert place.forget(place.held()) == 0
        written(place, rows(6))
        assert place.forget(place.held()) >= 1
        assert place.published() is None

    def test_removed(self, place: Destination, opener: Opener) -> None:
        base = self.publish(place, 1, rows(1))
        self.publish(place, 1, base=base, kept=list(base.files), version=1)
        opener(place.projection).remove()
        assert opener(place.projection).published() is None
        self.publish(opener(place.projection), 2, rows(2))
        assert self.read(place) == [(2, "n2")]

    def test_anothers_place_is_refused(self, place: Destination, opener: Opener) -> None:
        self.publish(place, 1, rows(1))
        other = opener(replace(place.projection, name="others"))
        with pytest.raises(UsageError, match="people"):
            other.published()
        with pytest.raises(UsageError, match="people"):
            other.remove()
        assert self.read(place) == [(1, "n1")]

    def test_a_place_with_something_else_is_refused(self, place: Destination) -> None:
        place.store.put_if_absent("thesis.doc", b"years of work")
        with pytest.raises(UsageError, match=r"thesis\.doc"):
            place.published()
        with pytest.raises(UsageError, match=r"thesis\.doc"):
            place.folder()
        with pytest.raises(UsageError, match=r"thesis\.doc"):
            place.remove()
        assert place.store.get("thesis.doc").data == b"years of work"
