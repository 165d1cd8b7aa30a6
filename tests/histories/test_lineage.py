"""What OpenLineage is told of jobs: which state they read, and what they left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.engine.choice import EngineChoice
from singerlake.errors import RejectedRowsError
from singerlake.lake import Lake
from singerlake.ops.publish.outcome import PublishOptions
from singerlake.ops.publish.publish import publish
from singerlake.publish.projection import Format, Projection, Target
from singerlake.sql.column_lineage import Origins
from singerlake.sql.queries.query import query
from tests.build import commit_rows
from tests.cli.call import run_json
from tests.frozen import create_on_spark as create
from tests.lineage_events import events, tell_into

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


def facet(dataset: Any, name: str) -> Any:
    return dataset["facets"][name]


def number(dataset: Any) -> str:
    version: str = facet(dataset, "version")["datasetVersion"]
    return version


QUERIES = {
    "select id, upper(name) as big from tap.people where age > 1": {"id": "p.id", "big": "p.name"},
    "select * from tap.people": {"id": "p.id", "name": "p.name", "age": "p.age"},
    "select p.name as n, count(*) as c, max(b.pages) as m from tap.people p join tap.books b "
    "on p.id = b.id group by p.name": {"n": "p.name", "c": "", "m": "b.pages"},
    "select a.id, b.name from tap.people a join tap.people b on a.id = b.age": {
        "id": "p.id", "name": "p.name",
    },
    "select coalesce(p.name, b.title) as t from tap.people p full join tap.books b using (id)": {
        "t": "b.title p.name",
    },
    "select id, name from tap.people union all select id, title from tap.books": {
        "id": "b.id p.id", "name": "b.title p.name",
    },
    "with w as (select id + age as s from tap.people) select x.s as a, y.s + 1 as b "
    "from w x join w y on x.s = y.s": {"a": "p.age p.id", "b": "p.age p.id"},
    "select name, row_number() over (partition by age order by id) as r from tap.people": {
        "name": "p.name", "r": "p.age p.id",
    },
    "select word from tap.people lateral view explode(split(name, ' ')) as word": {
        "word": "p.name",
    },
    "select id, (select max(pages) from tap.books) as most from tap.people": {
        "id": "p.id", "most": "b.pages",
    },
    "select age, name, sum(id) as s from tap.people group by cube (age, name)": {
        "age": "p.age", "name": "p.name", "s": "p.id",
    },
    "select distinct name as n from tap.people order by n limit 1": {"n": "p.name"},
    "select 1 as one, p.* except (id) from tap.people as p": {
        "one": "", "name": "p.name", "age": "p.age",
    },
}  # fmt: skip
"""Queries, and for each column of their answers the tables' columns that it comes from."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(str(tmp_path_factory.mktemp("shelf")), create=True)
    age, pages = ({name: {"type": "integer"}} for name in ("age", "pages"))
    people = [{"id": 1, "name": "Ada Ben", "age": 3}]
    commit_rows(lake, "tap.people", {**PROPERTIES, **age}, ["id"], people)
    books = {"id": {"type": "integer"}, "title": {"type": "string"}, **pages}
    commit_rows(lake, "tap.books", books, ["id"], [{"id": 1, "title": "x", "pages": 7}])
    return lake


def test_where_the_columns_of_a_query_come_from(spark: SparkSession, shelf: Lake) -> None:
    for sql, wanted in QUERIES.items():
        with query(spark, shelf, sql) as result:
            assert result.origins is not None
            found = {
                name: " ".join(f"{table.stream[0]}.{column}" for table, column in origins)
                for name, origins in result.origins.columns().items()
            }
        assert found == wanted, sql


def test_a_table_made_of_a_query(
    spark: SparkSession, shelf: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tell_into(tmp_path, monkeypatch)
    sql = "select name, sum(pages) as pages from tap.people join tap.books using (id) group by name"
    create(spark, shelf, "views.totals", sql)
    done = events(file)[-1]
    assert done["job"]["name"] == "create.views.totals"
    assert sorted(Path(read["name"]).name for read in done["inputs"]) == ["books", "people"]
    [wrote] = done["outputs"]
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 1
    [origin] = facet(wrote, "columnLineage")["fields"]["pages"]["inputFields"]
    assert (Path(origin["name"]).name, origin["field"]) == ("books", "pages")

    csv = tmp_path / "prices.csv"
    csv.write_text("id,price\n1,2.50\n")
    assert run_json(shelf, "upload", "shop.prices", str(csv), "--key", "id")["inserted"] == 1
    uploaded = events(file)[-1]
    assert uploaded["job"]["name"] == "create.shop.prices"
    assert uploaded["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1

    def breaks(_origins: Origins) -> None:
        raise ValueError

    monkeypatch.setattr(Origins, "columns", breaks)
    create(spark, shelf, "views.again", sql)
    [wrote] = events(file)[-1]["outputs"]
    assert "columnLineage" not in wrote["facets"]


def test_a_freeze_a_change_and_a_revert(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.people", PROPERTIES, ["id"], [{"id": n, "name": "x"} for n in range(3)])
    file = tell_into(tmp_path, monkeypatch)
    table = singerlake.open(lake.store.uri)["tap.people"]
    version = table.freeze("monday", spark=spark)
    with table.change(spark=spark) as change:
        change.upsert([{"id": 1, "name": "y"}, {"id": 7, "name": "z"}])
    table.revert("monday", dry_run=True, spark=spark)
    table.revert("monday", spark=spark)
    with pytest.raises(RejectedRowsError), table.change(spark=spark) as change:
        change.upsert([{"name": "nobody"}])
    told = events(file)
    kinds = [(event["job"]["name"], event["eventType"]) for event in told]
    assert kinds == [
        (f"{kind}.tap.people", state)
        for kind, last in (
            ("freeze", "COMPLETE"),
            ("change", "COMPLETE"),
            ("revert", "COMPLETE"),
            ("change", "FAIL"),
        )
        for state in ("START", last)
    ]
    frozen, changed, reverted = (event for event in told if event["eventType"] == "COMPLETE")
    [read], [wrote] = frozen["inputs"], frozen["outputs"]
    assert read["name"] == wrote["name"]
    assert (number(read), number(wrote)) == ("1", "1")
    assert {tag["key"]: tag["value"] for tag in facet(wrote, "tags")["tags"]} == {
        "version": "1",
        "label": "monday",
        "fingerprint": version.fingerprint,
    }
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 3
    [wrote] = changed["outputs"]
    assert number(wrote) == "3"
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 2
    [read], [wrote] = reverted["inputs"], reverted["outputs"]
    assert (number(read), number(wrote)) == ("1", "4")
    fields = facet(wrote, "columnLineage")["fields"]
    assert {name: one["inputFields"][0]["field"] for name, one in fields.items()} == {
        "id": "id",
        "name": "name",
    }
    assert "'id'" in told[-1]["run"]["facets"]["errorMessage"]["message"]


def test_a_publish(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.people", PROPERTIES, ["id"], [{"id": n, "name": "x"} for n in range(3)])
    file = tell_into(tmp_path, monkeypatch)
    sql = "select id, upper(name) as called from tap.people"
    target = Target(str(tmp_path / "out"), Format.PARQUET)
    declared = Projection("people", sql, target=target)
    for options in (PublishOptions(dry_run=True), PublishOptions()):
        [outcome] = publish(lake, [declared], options, EngineChoice.of(spark=spark))
        assert outcome.error is None
    start, done = events(file)
    assert (start["eventType"], done["eventType"]) == ("START", "COMPLETE")
    assert done["job"]["name"] == "publish.people"
    [read] = done["inputs"]
    assert Path(read["name"]).name == "people"
    [wrote] = done["outputs"]
    assert (wrote["namespace"], wrote["name"]) == ("file", str(tmp_path / "out"))
    assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 3
    columns = [one["name"] for one in facet(wrote, "schema")["fields"]]
    assert columns == ["id", "called"]
    [origin] = facet(wrote, "columnLineage")["fields"]["called"]["inputFields"]
    assert (Path(origin["name"]).name, origin["field"]) == ("people", "name")
