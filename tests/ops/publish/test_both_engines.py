"""The same tables are published in this process and on Spark: the same files come out of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.publish.outcome import Outcome, PublishOptions
from singerlake.ops.publish.projected import Projected
from singerlake.ops.publish.publish import publish
from singerlake.ops.publish.table_columns import TableColumns, wanted
from singerlake.publish.ad_hoc import AdHoc
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Projection
from tests.needs import MORE
from tests.ops.rows_back.histories import NAME
from tests.ops.test_both_engines import CORPUS, tasks

__all__ = ["tasks"]
EXACT = ("parquet", "csv", "jsonl", "delta")
"""Formats whose files have the same bytes if they have the same rows."""


def published(lake: Lake, choice: EngineChoice, to: Path, **said: Any) -> tuple[Any, ...]:
    """What lies at a destination after all versions of a table were published, and the head."""
    projection = AdHoc(str(to), NAME, versions=True, **said).projection(lake)
    done = one(lake, projection, choice).published
    assert done is not None
    return (replace(done, to=""), *shown(projection))


def one(lake: Lake, projection: Projection, choice: EngineChoice, **options: Any) -> Outcome:
    (outcome,) = publish(lake, [projection], PublishOptions(**options), choice)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def shown(projection: Projection) -> tuple[Any, ...]:
    place = open_destination(projection)
    base = place.published()
    assert base is not None
    exact = projection.target is not None and str(projection.target.format) in EXACT
    files = [
        (
            file.partition,
            file.rows,
            (file.low, file.high, file.nulls),
            sha256(place.store.get(file.path).data).hexdigest() if exact else None,
        )
        for file in base.files
    ]
    position = replace(base.position, lake="", projection="")
    return position, base.schema, files, [*base.versions]


@pytest.mark.usefixtures("tasks", "each_operation")
@pytest.mark.parametrize(
    ("tasks", "name", "said"),
    [
        pytest.param(
            "one task", "all kinds of keys", {"order_by": "v desc", "key": "v"}, marks=MORE
        ),
        ("one task", "other schemas", {}),
        pytest.param("one task", "activations", {"format": "jsonl", "order_by": "a"}, marks=MORE),
        ("many tasks", "random", {"partition_by": "part", "order_by": "n desc"}),
        pytest.param("many tasks", "random", {"format": "csv", "order_by": "n"}, marks=MORE),
        pytest.param(
            "layers",
            "compound keys",
            {"format": "avro", "partition_by": "bucket(3, id)"},
            marks=MORE,
        ),
        pytest.param("one task", "compound keys", {"format": "iceberg"}, marks=MORE),
        pytest.param("one task", "random", {"format": "delta", "order_by": "n"}, marks=MORE),
    ],
    indirect=["tasks"],
)
def test_publications_are_alike(
    spark: SparkSession, lake: Lake, tmp_path: Path, name: str, said: dict[str, Any]
) -> None:
    CORPUS[name](lake)
    for number in range(1, lake.find(NAME)[0].snapshot().number + 1):
        freeze(lake.find(NAME)[0], FreezeOptions(at=number, again=True), EngineChoice(LOCAL))
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    here = published(lake, EngineChoice(LOCAL), tmp_path / "here", **said)
    assert here == published(other, EngineChoice.of(spark=spark), tmp_path / "there", **said)


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    "name", [n if n == "other schemas" else pytest.param(n, marks=MORE) for n in CORPUS]
)
def test_columns_are_what_sql_gives(spark: SparkSession, lake: Lake, name: str) -> None:
    table = CORPUS[name](lake)
    first = table.snapshot().columns[0][0]
    versions = [None, str(freeze(table, FreezeOptions(at=1), EngineChoice(LOCAL)).version.number)]
    for sql in (f"select * from {NAME}", f"select `{first}` as one from {NAME}"):
        for at in versions:
            found = wanted(lake, sql, at)
            assert found is not None
            engine = EngineChoice(LOCAL).engine_for(found.work(), "publishing")
            with TableColumns(engine, found) as plain, Projected(spark, lake, sql, at=at) as asked:
                assert plain.schema == asked.schema
                assert plain.sources == asked.sources
                assert plain.key == asked.key
                assert plain.lineage() == asked.lineage()
                assert plain.count() == asked.count()
                assert plain.obstacle(plain.sources) == asked.obstacle(plain.sources)
                assert rows(plain) == rows(asked)


def rows(answer: Any) -> list[str]:
    source = answer.source()
    packed = source.through(_packed, "rows binary")
    found = [pa.ipc.open_stream(row["rows"]).read_all() for row in answer.engine.collect(packed)]
    return sorted(repr(row) for table in found for row in table.to_pylist())


def _packed(batches: Any) -> Any:
    for batch in batches:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema) as writer:
            writer.write(batch)
        yield pa.RecordBatch.from_pydict({"rows": [out.getvalue().to_pybytes()]})


def test_rows_that_are_published_are_those_of_the_versions(lake: Lake, tmp_path: Path) -> None:
    CORPUS["random"](lake)
    table = singerlake.open(lake.store.uri)[NAME]
    for number in range(1, table.snapshot().number + 1):
        table.freeze(transaction=number, again=True, engine=LOCAL)
    projection = AdHoc(str(tmp_path / "out"), NAME, versions=True, order_by="n").projection(lake)
    one(lake, projection, EngineChoice(LOCAL))
    said = json.loads((tmp_path / "out" / "_latest.json").read_text())
    for number, folder in said["versions"].items():
        files = sorted((tmp_path / "out" / folder["folder"]).glob("*.parquet"))
        found = pa.concat_tables([pq.read_table(file) for file in files])
        wanted_rows = table.at(int(number)).to_arrow()
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted_rows.to_pylist()))
