from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format import metadata
from singerlake.format.names import INDEX_MARKER as MARKER
from singerlake.format.types import RULES
from singerlake.lake import Lake, Table
from singerlake.log.commit import commit
from singerlake.snapshot import building, index
from singerlake.snapshot.index import Index, is_sound
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_build
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows, resealed
from tests.frozen import freeze_on_spark as freeze
from tests.histories import here
from tests.histories.stores import FarStore, WatchedStore
from tests.snapshot.test_rules import frozen_before
from tests.snapshot.test_state import FLAT, in_order
from tests.sql.index_frames import read_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path / "a [lake]*{x}" / "k=v", tmp_path / "notes")


@pytest.fixture
def lake(store: WatchedStore) -> Lake:
    return Lake(store)


def build(spark: SparkSession, lake: Lake, at: int | None = None) -> tuple[Table, Index]:
    table = lake.find("tap.s")[0]
    snapshot = table.snapshot()
    return table, index_build.ensure(spark, table, snapshot if at is None else snapshot.at(at))


def read(spark: SparkSession, built: Index) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_index(spark, built).toArrow().to_pylist()
    return rows


def files_of(built: Index) -> list[Path]:
    root = Path(built.table.store.uri)
    return sorted((root / built.table.name.index(built.marker.transaction)).iterdir())


def records(count: int, **more: Any) -> list[Any]:
    return [{"id": n, "part": "x", "n": n, **more} for n in range(count)]


def test_a_later_index_reads_only_the_blocks_since(
    spark: SparkSession, lake: Lake, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 1)
    commit_rows(lake, "tap.s", FLAT, ["id"], records(50), block_rows=10)
    _, first = build(spark, lake)
    assert len(store.taken()) == 1, "neighbours are read together"
    assert len(read(spark, first)) == 50
    commit_rows(
        lake, "tap.s", FLAT, ["id"],
        [{"id": 3, "_sdc_deleted_at": "2026-01-01"}, {"id": 4, "n": -4}, {"id": 99, "n": 99}],
    )  # fmt: skip
    _, second = build(spark, lake)
    assert len(store.taken()) == 1
    got = read(spark, second)
    assert in_order(got) == in_order(here.rows(lake.find("tap.s")[0]))
    assert len(got) == 50
    store.taken()
    assert build(spark, lake)[1].marker == second.marker
    assert build(spark, lake, at=1)[1].marker == first.marker
    assert store.taken() == []


def test_activations_and_keyless_tables_build_on_an_index(
    spark: SparkSession, lake: Lake, store: WatchedStore
) -> None:
    first: list[Any] = [({"n": n}, 1) for n in range(10)]
    commit_rows(lake, "tap.s", FLAT, [], [*first, 1])
    build(spark, lake)
    commit_rows(lake, "tap.s", FLAT, [], [({"n": 10}, 1), {"n": 11}, ({"n": 12}, 2)])
    assert len(read(spark, build(spark, lake)[1])) == 13
    commit_rows(lake, "tap.s", FLAT, [], [1])
    assert sorted(r["n"] for r in read(spark, build(spark, lake)[1])) == list(range(11))
    commit_rows(lake, "tap.s", FLAT, [], [2, ({"n": 13}, 2)])
    store.taken()
    assert [r["n"] for r in read(spark, build(spark, lake)[1])] == [13]
    assert len(store.taken()) == 1


def test_another_schema_starts_from_the_blocks(
    spark: SparkSession, lake: Lake, store: WatchedStore
) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], records(5))
    build(spark, lake)
    commit_rows(lake, "tap.s", {**FLAT, "more": {"type": "string"}}, ["id"], [{"id": 9}])
    store.taken()
    assert len(read(spark, build(spark, lake)[1])) == 6
    assert len(store.taken()) == 2


def test_rows_keep_where_they_come_from(spark: SparkSession, lake: Lake) -> None:
    columns = {"id": {"type": "integer"}, "_block": {"type": "string"}, "_ORDINAL": {}}
    rows: list[Any] = [({"id": n, "_block": "mine"}, 7) for n in range(4)]
    commit_rows(lake, "tap.s", columns, ["id"], rows, block_rows=2)
    _, built = build(spark, lake)
    table = pq.ParquetFile(files_of(built)[-1]).read()
    own = [*columns, "__block", "__ordinal", "_singer_version", "_digest", "_misfit"]
    assert table.column_names == own
    assert set(table["_digest"].to_pylist()) <= {
        blake3(json.dumps(record).encode()).digest()[:20] for record, _ in rows
    }
    assert sorted(table.select(["id", "__block", "__ordinal"]).to_pylist(), key=str) == [
        {"id": 0, "__block": 1, "__ordinal": 0},
        {"id": 1, "__block": 1, "__ordinal": 1},
        {"id": 2, "__block": 2, "__ordinal": 0},
        {"id": 3, "__block": 2, "__ordinal": 1},
    ]
    assert set(table["_singer_version"].to_pylist()) == {7}


def _delete_folder(built: Index) -> None:
    shutil.rmtree(files_of(built)[0].parent)


def _cut_marker(built: Index) -> None:
    path = files_of(built)[0].parent / MARKER
    path.write_bytes(path.read_bytes()[:20])


def _part_of(built: Index) -> Path:
    return Path(built.table.store.uri, built.parts[0].key)


def _delete_part(built: Index) -> None:
    _part_of(built).unlink()


def _cut_part(built: Index) -> None:
    path = _part_of(built)
    path.write_bytes(path.read_bytes()[:-9])


def _change_marker(**changes: Any) -> Callable[[Index], None]:
    def change(built: Index) -> None:
        path = files_of(built)[0].parent / MARKER
        path.write_bytes(resealed({**json.loads(path.read_text()), **changes}))

    return change


def _flip_marker(built: Index) -> None:
    """A bit that no other check would see, where it is in ``base`` or in a file's name."""
    path = files_of(built)[0].parent / MARKER
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"rows": 5', b'"rows": 4'))
    assert path.read_bytes() != data


HARMS = {
    "deleted": _delete_folder,
    "marker cut": _cut_marker,
    "part deleted": _delete_part,
    "part cut": _cut_part,
    "commit": _change_marker(commit="of another log"),
    "transaction": _change_marker(transaction=7),
    "schema": _change_marker(schema_hash="another"),
    "flipped": _flip_marker,
    "newer": _change_marker(format=99),
    "older": _change_marker(format=1),
    "outside": _change_marker(
        files=[{"path": "../../../../raw/singerlake.json", "rows": 1, "bytes": 1}]
    ),
    "absolute": _change_marker(files=[{"path": "/etc/passwd", "rows": 1, "bytes": 1}]),
}


def test_a_harmed_index_is_made_anew(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], records(5))
    _, built = build(spark, lake)
    for name, harm in HARMS.items():
        harm(built)
        _, again = build(spark, lake)
        batches = StateReader.of(again).rows([*again.shape.aliases])
        assert sum(batch.num_rows for batch in batches) == 5, name
        assert again.marker.files != built.marker.files, name
        found = index.load(again.table, again.snapshot)
        assert found is not None, name
        assert found.marker == again.marker, name
        built = again


def test_two_builders_at_once_agree(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], records(20))
    with ThreadPoolExecutor(2) as pool:
        one, other = [f.result() for f in [pool.submit(build, spark, lake) for _ in range(2)]]
    assert one[1].marker == other[1].marker
    names = {path.name for path in files_of(one[1])}
    assert names == {MARKER, *(file.path for file in one[1].marker.files)}
    assert len(read(spark, one[1])) == 20


def test_transactions_without_rows_share_an_index(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], records(5))
    table, first = build(spark, lake)
    here.freeze(table)
    assert table.snapshot().number == 2
    assert build(spark, lake)[1].marker == first.marker


def test_an_empty_table_has_an_index(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [])
    _, built = build(spark, lake)
    assert built.marker.files == []
    assert read(spark, built) == []


def test_a_store_that_spark_cannot_reach(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(FarStore(LocalStore(tmp_path / "far")))
    columns = {"id": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}}
    rows: list[Any] = [{"id": n, "t": "2020-01-02T03:04:05Z"} for n in range(30)]
    commit_rows(lake, "tap.s", columns, ["id"], rows, block_rows=7)
    _, built = build(spark, lake)
    assert in_order(read(spark, built)) == in_order(here.rows(lake.find("tap.s")[0]))
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 0, "_sdc_deleted_at": "2026-01-01"}])
    assert len(read(spark, build(spark, lake)[1])) == 29


def test_the_marker_is_that_of_the_format(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], records(5))
    table, built = build(spark, lake)
    key = table.name.index(1) + MARKER
    assert key == "index/tap/s/1/_index.json"
    marker = metadata.decode(table.store.get(key).data, metadata.IndexMarker, key)
    assert marker == built.marker
    assert (marker.transaction, marker.rows) == (1, 5)
    assert marker.commit == table.snapshot().commit


def test_index_made_by_other_rules_of_types_is_made_again(spark: SparkSession, lake: Lake) -> None:
    columns = {"d": {"type": "string", "format": "x-singer.decimal"}}
    commit_rows(lake, "tap.s", columns, [], ['{"d": "1.10"}'])
    table, ours = build(spark, lake)
    assert ours.marker.types == RULES
    assert read(spark, ours) == [{"d": Decimal("1.10")}]
    commit(lake.store, table.snapshot(), frozen_before)
    assert build(spark, lake)[1].marker == ours.marker
    version = table.snapshot().named("1")[1]
    theirs = index_build.ensure(spark, table, version)
    assert (theirs.marker.transaction, theirs.marker.types) == (1, 1)
    assert read(spark, theirs) == [{"d": "1.10"}]
    assert index_build.ensure(spark, table, version).marker == theirs.marker
    assert read(spark, build(spark, lake)[1]) == [{"d": Decimal("1.10")}]


def test_a_flipped_byte_in_a_part_is_an_error_never_another_answer(
    spark: SparkSession, lake: Lake
) -> None:
    numbers = [{"id": n, "x": f"value {n}"} for n in range(2000)]
    commit_rows(
        lake, "tap.flip", {"id": {"type": "integer"}, "x": {"type": "string"}}, ["id"], numbers
    )
    table = lake.find("tap.flip")[0]
    built = index_build.ensure(spark, table, table.snapshot())
    (path,) = [Path(lake.store.uri, part.key) for part in built.parts]
    good = path.read_bytes()
    for place in range(100, len(good) - 4000, len(good) // 5):
        bad = bytearray(good)
        bad[place] ^= 0x10
        path.write_bytes(bytes(bad))
        with pytest.raises(SingerlakeError), plain_errors():
            read_index(spark, built).collect()


def _flip(path: Path, place: int, bit: int = 0) -> None:
    """Turn one bit, as a disk would: the file's times stay."""
    about = path.stat()
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(bytes(data))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_a_bit_in_a_footer_never_changes_an_answer(
    spark: SparkSession, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    """A footer has no checksum in Parquet: its statistics alone can hide rows from a filter."""
    commit_rows(lake, "tap.s", FLAT, ["id"], records(10))
    table, built = build(spark, lake)
    here.freeze(table)
    question = "select count(*) from tap.s.1 where id >= 0 and n < 10"
    path = Path(lake.store.uri, built.parts[0].key)
    end = path.stat().st_size
    footer = int.from_bytes(path.read_bytes()[-8:-4], "little")
    for place in range(end - 8 - footer, end - 8, footer // 3):
        path = Path(lake.store.uri, build(spark, lake)[1].parts[0].key)
        _flip(path, place, place % 8)
        (problem,) = here.problems(table)
        assert problem.what == "index"
        assert path.name in str(problem)
        caplog.clear()
        assert list(query(spark, lake, question).rows()) == [(10,)]
        assert "has changed since it was written" in caplog.text
        assert here.problems(table) == []


def test_a_bit_below_a_layer_is_seen_too(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 1)
    commit_rows(lake, "tap.s", FLAT, ["id"], records(100))
    _, below = build(spark, lake)
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 0, "part": "x", "n": 100}])
    _, layer = build(spark, lake)
    assert layer.below is not None
    path = Path(lake.store.uri, below.parts[0].key)
    _flip(path, path.stat().st_size - 40)
    _, again = build(spark, lake)
    assert again.below is None
    assert sum(row["n"] for row in read(spark, again)) == sum(range(1, 101))


def test_a_bit_where_spark_cannot_reach_is_a_plain_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(FarStore(LocalStore(tmp_path / "far")))
    commit_rows(lake, "tap.s", FLAT, ["id"], records(10))
    table, built = build(spark, lake)
    path = tmp_path / "far" / built.parts[0].key
    _flip(path, path.stat().st_size - 40)
    with pytest.raises(DamagedError, match="not as it was written.*delete the folder index/tap/s"):
        list(query(spark, lake, "select sum(n) from tap.s").rows())
    assert freeze(spark, table).rows == 10
    assert list(query(spark, lake, "select sum(n) from tap.s").rows()) == [(45,)]


def test_a_file_is_read_for_its_hash_once(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    good = blake3(b"one").hexdigest()
    assert is_sound(path, good)
    assert not is_sound(path, blake3(b"two").hexdigest())
    assert not is_sound(tmp_path / "none", good)
    read = []

    class Counting:
        AUTO = blake3.AUTO

        def __init__(self, **options: Any) -> None:
            self.inner = blake3(**options)
            self.hexdigest = self.inner.hexdigest

        def update_mmap(self, path: Path) -> None:
            read.append(path)
            self.inner.update_mmap(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("singerlake.snapshot.index.blake3", Counting)
        assert is_sound(path, good)
        assert read == []
        path.write_bytes(b"two")
        assert not is_sound(path, good)
        assert read == [path]
