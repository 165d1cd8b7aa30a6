"""Projections staged and published as a whole: by the job, by the commands, from Python."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import pytest

import singerlake
from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError, InvalidQueryError, NotFoundError, UsageError
from singerlake.lake import Lake
from singerlake.log import log
from singerlake.ops.publish.outcome import Result
from singerlake.ops.publish.publish import publish
from singerlake.publish.ad_hoc import AdHoc
from singerlake.publish.destinations.opening import open_destination
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.histories import here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.ops.publish.outcome import Outcome

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "city": {"type": ["null", "string"]},
    "total": {"type": "number"},
    "_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
}
ROWS: list[Any] = [{"id": n, "city": "Rome" if n % 2 else "Oslo", "total": n / 2} for n in range(9)]
YAML = """
version: 1
projections:
- name: cities
  sql: select city, count(*) as orders from staging.orders group by city
  to: out/cities
  format: csv
  order_by: city
- name: orders
  sql: select id, city, total from tap_shop.orders where total >= 1
  stage: staging.orders
  key: id
  order_by: total desc
  to: out/orders
"""


def declared(folder: Path, text: str = YAML) -> Path:
    file = folder / "projections.yml"
    file.write_text(text)
    return file


def sync(lake: Lake, rows: list[Any]) -> None:
    commit_rows(lake, "tap-shop.orders", COLUMNS, ["id"], rows)


@pytest.fixture
def shop(tmp_path: Path) -> singerlake.Lake:
    lake = singerlake.open(tmp_path / "lake", create=True)
    sync(lake, ROWS)
    return lake


def read(place: Path, form: str = "parquet", version: int | None = None) -> list[tuple[Any, ...]]:
    """What a reader finds who goes by the pointer."""
    said = json.loads((place / "_latest.json").read_text())
    folder = said["folder"] if version is None else said["versions"][str(version)]["folder"]
    reader = {"parquet": "read_parquet", "csv": "read_csv_auto"}[form]
    files = sorted((place / folder).glob(f"*.{form}"))
    rows: list[tuple[Any, ...]] = []
    for file in files:
        rows += duckdb.sql(f"select * from {reader}('{file}')").fetchall()
    return rows


def commits(place: Path) -> str:
    return str(json.loads((place / "_latest.json").read_text())["folder"])


def no_java() -> Any:
    """Within it, a command that would start Java fails."""
    return mock.patch("singerlake_cli.shared.begin_spark", side_effect=AssertionError("Java"))


def one(outcomes: Any) -> Outcome:
    (outcome,) = outcomes
    if outcome.error is not None:
        raise outcome.error
    return outcome  # type: ignore[no-any-return]


@pytest.mark.usefixtures("each_operation")
def test_raw_staging_published(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    file = declared(tmp_path)
    orders, cities = shop.publish(projections=file, spark=spark)
    assert (orders.projection, cities.projection) == ("orders", "cities")  # what reads comes later
    assert orders.staged is not None and orders.staged.inserted == 7
    assert orders.published is not None and orders.published.rows == 7
    out = tmp_path / "out"
    assert read(out / "orders") == [
        (n, "Rome" if n % 2 else "Oslo", n / 2) for n in range(8, 1, -1)
    ]
    assert read(out / "cities", "csv") == [("Oslo", 4), ("Rome", 3)]
    file_of_lake = Lake.open(shop.store.uri).annotations()
    assert file_of_lake.published["orders"].tables == ["staging.orders"]
    assert file_of_lake.published["cities"].to == str(out / "cities")
    shown = run(shop, "show", "staging.orders").output
    assert "staged        by orders, of tap-shop.orders at transaction 1\n" in shown
    assert "staged" not in run(shop, "show", "tap-shop.orders").output

    before = {place: commits(out / place) for place in ("orders", "cities")}
    head = shop["staging.orders"].snapshot().number
    again = shop.publish(projections=file, spark=spark)
    assert {outcome.result for outcome in again} == {Result.UP_TO_DATE}
    assert before == {place: commits(out / place) for place in before}
    assert shop["staging.orders"].snapshot().number == head

    gone = {"id": 2, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
    sync(shop, [{"id": 3, "city": None, "total": 1}, {"id": 20, "total": 9}, gone])
    dry = shop.publish(projections=file, dry_run=True, spark=spark)
    assert dry[0].result is Result.TO_DO
    assert dry[0].staged is not None and dry[0].staged.changed == 3
    assert dry[0].published is not None and dry[0].published.changed == 3
    assert dry[0].published.written is None  # where they lie is known once they are staged
    assert dry[1].result is Result.TO_DO and dry[1].reason.startswith("staging.orders changes")
    assert before == {place: commits(out / place) for place in before}
    assert shop["staging.orders"].snapshot().number == head

    orders, cities = shop.publish(projections=file, spark=spark)
    assert orders.staged is not None and orders.staged.how == "incremental"
    assert (orders.staged.inserted, orders.staged.updated, orders.staged.deleted) == (1, 1, 1)
    assert orders.published is not None and not orders.published.full
    assert orders.published.changed == 3
    assert cities.published is not None and cities.published.full  # rows are put together
    kept = [(n, "Rome" if n % 2 else "Oslo", n / 2) for n in range(8, 3, -1)]
    assert read(out / "orders") == [(20, None, 9.0), *kept, (3, None, 1.0)]
    assert read(out / "cities", "csv") == [("Oslo", 3), ("Rome", 2), (None, 2)]
    entry = log.read_entry(shop.store, shop["staging.orders"].name, head + 1)
    assert entry is not None and entry.metadata["projection"] == "orders"


def test_one_that_fails_stops_only_its_readers(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    text = YAML + "- {name: whole, from: tap_shop.orders, to: out/whole, format: csv}\n"
    file = declared(tmp_path, text.replace("select id, city, total", "select id, city, totl"))
    with pytest.raises(InvalidQueryError, match="total"):
        shop.publish(projections=file, spark=spark)
    assert len(read(tmp_path / "out" / "whole", "csv")) == 9
    assert not (tmp_path / "out" / "cities").exists()
    result = run(shop, "publish", "--all", "--projections", str(file))
    assert result.exit_code == InvalidQueryError.exit_code, result.output
    assert "cities: skipped: it reads the result of orders" in result.output
    assert "whole: up to date" in result.output
    found = run_json(shop, "publish", "--all", "--projections", str(file), code=2)
    assert [one["result"] for one in found] == ["failed", "skipped", "up to date"]
    assert found[0]["error"]["kind"] == "invalid_query"
    # What is well is published by name, and what it reads with it.
    result = run(shop, "publish", "cities", "--projections", str(declared(tmp_path)))
    assert result.exit_code == 0, result.output
    assert len(read(tmp_path / "out" / "cities", "csv")) == 2


def test_ad_hoc(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    place = tmp_path / "place"
    args = ("--table", "tap-shop.orders", "--where", "city = 'Rome'", "--order-by", "total desc")
    result = run(shop, "publish", *args, "--to", str(place))
    assert result.exit_code == 0, result.output
    assert [row[0] for row in read(place)] == [7, 5, 3, 1]
    with no_java():
        assert run(shop, "publish", *args, "--to", str(place)).output == f"{place}: up to date\n"
        dry = run(shop, "publish", *args, "--to", str(place), "--dry-run")
        assert dry.output == f"{place}: up to date\n"
    listed = run(shop, "show", "tap-shop.orders").output
    assert f"published     {place} (parquet)\n" in listed
    sync(shop, [{"id": 11, "city": "Rome", "total": 9}, {"id": 12, "city": "Oslo", "total": 9}])
    dry = run_json(shop, "publish", *args, "--to", str(place), "--dry-run")[0]
    counted = [dry["published"][name] for name in ("full", "written", "changed")]
    assert (dry["result"], counted) == ("to do", [False, 5, 1])  # the file that it goes into
    assert [row[0] for row in read(place)] == [7, 5, 3, 1]
    result = run(shop, "publish", *args, "--to", str(place), "--dry-run", "--full-refresh")
    assert result.output == f"{place} (dry run): it was requested: all 5 rows written\n"
    gone = {"_sdc_deleted_at": "2026-01-02T03:04:05Z"}
    sync(shop, [{"id": 11, **gone}, {"id": 12, **gone}])
    # A source that moved, and the same rows: nothing is written but how far it is looked at.
    before = commits(place)
    assert run(shop, "publish", *args, "--to", str(place)).output == f"{place}: up to date\n"
    assert commits(place) == before
    with no_java():
        assert run(shop, "publish", *args, "--to", str(place)).output == f"{place}: up to date\n"
    # Another order of the same rows, from Python.
    outcome = shop["tap-shop.orders"].publish(place, where="city = 'Rome'", order_by="id")
    assert outcome.published is not None
    assert outcome.published.why == "the definition changed: order_by"
    assert [row[0] for row in read(place)] == [1, 3, 5, 7]
    with pytest.raises(UsageError, match="inside the lake"):
        shop["tap-shop.orders"].publish(tmp_path / "lake" / "raw")


def test_ad_hoc_by_sql(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    place = tmp_path / "place"
    args = ["--sql", "select id, city, total * 2 as twice from tap_shop.orders", "--key", "id"]
    args += ["--partition-by", "city", "--order-by", "twice desc", "--format", "csv"]
    args += ["--compression", "gzip", "--file-size", "1MB", "--to", str(place)]
    assert run_json(shop, "publish", *args)[0]["published"]["format"] == "csv"
    sync(shop, [{"id": 1, "city": "Rome", "total": 7}])
    would, done = (run_json(shop, "publish", *args, *more)[0] for more in (["--dry-run"], []))
    counted = ("full", "written", "changed")
    assert [would["published"][name] for name in counted] == [False, 4, 1]
    assert [done["published"][name] for name in counted] == [False, 4, 1]
    files = sorted((place / commits(place)).glob("city=*/*.csv.gz"))
    assert {file.parent.name for file in files} == {"city=Oslo", "city=Rome"}
    (rome,) = (file for file in files if file.parent.name == "city=Rome")
    assert duckdb.sql(f"select id from read_csv('{rome}')").fetchall() == [(1,), (7,), (5,), (3,)]


def test_ad_hoc_by_the_tables_own_key(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    (tmp_path / "apart").mkdir()
    # Two ways to one place are one name.
    for to in (place, tmp_path / "apart" / ".." / "place"):
        args = ("publish", "--table", "tap-shop.orders", "--to", str(to))
        done = run_json(shop, *args)[0]
        assert done["projection"] == str(place)
        assert done["published"]["full"] is (to == place)
        said = json.loads((place / "_latest.json").read_text())
        assert (said["key"], said["bounds_of"]) == (["id"], "id")
        sync(shop, [{"id": 4, "city": "Bonn", "total": 4}, {"id": 20, "city": "Bonn", "total": 9}])
    assert done["published"]["written"] == 10
    assert [row[:2] for row in read(place)][-1] == (20, "Bonn")


def test_versions(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    place = tmp_path / "place"
    table = shop["tap-shop.orders"]
    here.freeze(table, label="first")
    sync(shop, [{"id": 0, "city": "Bonn", "total": 0}])
    here.freeze(table)
    sync(shop, [{"id": 100, "city": "Bonn", "total": 0}])
    outcome = table.publish(place, order_by="id", versions=True)
    assert outcome.published is not None and outcome.published.versions == (1, 2)
    first, second, head = (read(place, version=number) for number in (1, 2, None))
    assert [row[:2] for row in first[:2]] == [(0, "Oslo"), (1, "Rome")]
    assert [row[:2] for row in second[:2]] == [(0, "Bonn"), (1, "Rome")]
    assert (len(first), len(second), len(head)) == (9, 9, 10)
    assert table.publish(place, order_by="id", versions=True).result is Result.UP_TO_DATE
    # What is frozen of the state that readers see is another name for it; of an earlier one, not.
    here.freeze(table)
    here.freeze(table, at=1)
    before = commits(place)
    outcome = table.publish(place, order_by="id", versions=True)
    assert outcome.published is not None and outcome.published.versions == (4, 3)
    assert commits(place) == before
    assert read(place, version=3) == head and read(place, version=4) == first
    assert read(place) == head


def test_a_version_is_published_when_it_is_frozen_or_asked_for(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    text = (
        "projections: [{name: o, from: tap_shop.orders, to: out/o, order_by: id, versions: true}]"
    )
    file = str(declared(tmp_path, f"version: 1\n{text}\n"))
    other = str(declared(tmp_path / "lake", YAML))
    refused = run(shop, "freeze", "tap-shop.orders", "--publish", "--projections", other)
    assert refused.exit_code == 2 and "no projection publishes versions" in refused.output
    assert shop["tap-shop.orders"].versions() == []
    frozen = run_json(shop, "freeze", "tap-shop.orders", "--publish", "--projections", file)
    assert frozen["number"] == 1 and frozen["published"][0]["published"]["versions"] == [1]
    here.freeze(shop["tap-shop.orders"], label="again")
    sync(shop, [{"id": 100, "city": "Bonn", "total": 0}])
    result = run(shop, "publish", "o", "--version", "again", "--projections", file)
    assert result.exit_code == 0 and "v2" in result.output, result.output
    assert len(read(tmp_path / "out" / "o", version=2)) == 9
    assert len(read(tmp_path / "out" / "o")) == 9  # as before: only the version was asked for
    result = run(shop, "publish", "o", "--version", "17", "--projections", file)
    assert result.exit_code == 3, result.output
    version = shop.freeze("q3", tables=["tap-shop.orders"], spark=spark)
    sync(shop, [{"id": 101, "city": "Bonn", "total": 0}])
    commit_rows(shop, "tap-shop.other", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    shop.freeze("later", tables=["tap-shop.other"], spark=spark)
    result = run(shop, "publish", "o", "--lake-version", "q3", "--projections", file)
    assert result.exit_code == 0, result.output
    assert len(read(tmp_path / "out" / "o", version=version.tables[0].version)) == 10
    assert len(read(tmp_path / "out" / "o")) == 9
    for args, code in (
        (["--lake-version", "q4"], 3),
        (["--lake-version", "q3", "--version", "1"], 2),
    ):
        assert run(shop, "publish", "o", "--projections", file, *args).exit_code == code, args
    result = run(shop, "publish", "o", "--lake-version", "later", "--projections", file)
    assert result.exit_code == 3 and "has no table tap-shop.orders" in result.output
    assert run(shop, "publish", "o", "--projections", file).exit_code == 0
    assert len(read(tmp_path / "out" / "o")) == 11


def test_a_lake_version_is_published_from_python(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    text = "version: 1\nprojections: [{name: o, from: tap_shop.orders, to: out/o, versions: true}]"
    publishing = partial(shop.publish, projections=declared(tmp_path, text), spark=spark)
    frozen = []
    for number in (100, 101):
        frozen.append(shop.freeze(f"q{number}", spark=spark))
        sync(shop, [{"id": number, "city": "Bonn", "total": 0}])
    for said, version in (("q100", 1), (frozen[1], 2)):
        (outcome,) = publishing(["o"], lake_version=said)
        assert outcome.result is Result.DONE and outcome.published is not None
        assert outcome.published.versions == (version,)
        assert len(read(tmp_path / "out" / "o", version=version)) == 8 + version
    for named in (1, "2"):
        assert publishing(lake_version=named)[0].result is Result.UP_TO_DATE
    with pytest.raises(UsageError, match="give one"):
        publishing(lake_version=1, version=1)
    with pytest.raises(NotFoundError, match="there is no lake version 'q9'"):
        publishing(lake_version="q9")


def test_columns_that_change(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    text = """
version: 1
projections:
- {name: strict, from: tap_shop.orders, to: out/strict, on_schema_change: fail}
- {name: easy, from: tap_shop.orders, to: out/easy}
"""
    file = declared(tmp_path, text)
    shop.publish(projections=file, spark=spark)
    wider = {**COLUMNS, "note": {"type": "string"}}
    commit_rows(shop, "tap-shop.orders", wider, ["id"], [{"id": 1, "total": 1, "note": "x"}])
    with pytest.raises(UsageError, match="strict would get other columns: note string is new"):
        shop.publish(projections=file, spark=spark)
    assert "note" not in str(duckdb_columns(tmp_path / "out" / "strict"))
    assert "note" in str(duckdb_columns(tmp_path / "out" / "easy"))
    shop.publish(projections=file, full_refresh=True, spark=spark)
    assert "note" in str(duckdb_columns(tmp_path / "out" / "strict"))


def duckdb_columns(place: Path) -> list[str]:
    folder = place / commits(place)
    return list(duckdb.sql(f"select * from read_parquet('{folder}/*.parquet')").columns)


def test_unpublish(spark: SparkSession, shop: singerlake.Lake, tmp_path: Path) -> None:
    file = declared(tmp_path)
    shop.publish(["orders"], projections=file, spark=spark)
    place = tmp_path / "out" / "orders"
    asked = run(shop, "unpublish", "orders", "--delete", "--projections", str(file), input="n\n")
    assert asked.exit_code == 1 and "7 rows" in asked.output
    assert len(read(place)) == 7
    ended = run(shop, "unpublish", "orders", "--projections", str(file))
    assert ended.exit_code == 0 and "is no longer updated" in ended.output
    assert "the next publish --all publishes it again" in ended.output
    assert len(read(place)) == 7
    assert Lake.open(shop.store.uri).annotations().published == {}
    # The place tells whose it is, also where the lake has forgotten.
    gone = run_json(shop, "unpublish", "orders", "--delete", "--yes", "--projections", str(file))
    assert gone["deleted"] is True
    assert [found for found in place.rglob("*") if found.is_file()] == []
    again = run(shop, "unpublish", "orders", "--delete", "--yes", "--projections", str(file))
    assert again.exit_code == 3 and "nothing is published" in again.output
    assert shop["staging.orders"].snapshot().number == 1


def test_somebody_else_publishes_meanwhile(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection = AdHoc(to=str(tmp_path / "place"), table="tap_shop.orders").projection(shop)
    one(publish(shop, [projection], None, EngineChoice.of(spark=spark)))
    sync(shop, [{"id": 50, "total": 1}])
    destination = open_destination(projection)
    base = destination.published()
    assert base is not None
    one(publish(shop, [projection], None, EngineChoice.of(spark=spark)))
    from singerlake.publish.published import Commit

    with pytest.raises(ConflictError, match=f"another process published at {tmp_path}/place "):
        destination.commit(base, Commit(base.position, base.schema, base.files, ()))
    assert len(read(tmp_path / "place")) == 10


def test_what_the_lake_does_not_know_is_noted_again(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    from singerlake.publish import registry

    place = tmp_path / "place"
    shop["tap-shop.orders"].publish(place)
    registry.leave(shop, str(place))
    shop["tap-shop.orders"].publish(place)
    assert str(place) in Lake.open(shop.store.uri).annotations().published


def test_what_is_wrong_is_said_before_java_starts(shop: singerlake.Lake, tmp_path: Path) -> None:
    file = str(declared(tmp_path))
    other = tmp_path / "other"
    (other / "mine").mkdir(parents=True)
    (other / "mine" / "note.txt").write_text("not yours")
    with no_java():
        for args, code, says in (
            (
                ["--all", "orders", "--projections", file],
                2,
                "name projections or use --all, not both",
            ),
            (["--projections", file], 2, "name projections: cities, orders, or --all"),
            (["order", "--projections", file], 2, "did you mean orders?"),
            (["--table", "tap_shop.orders"], 2, "specify the destination with --to:"),
            (["--to", str(other)], 2, "name the table to publish,"),
            (["orders", "--to", str(other)], 2, "not both"),
            (["--table", "tap_shop.order", "--to", str(other / "x")], 3, "tap-shop.orders"),
            (["--table", "tap_shop.orders", "--to", str(other)], 2, "contains something else"),
            (["--table", "tap_shop.orders", "--to", f"{shop.store.uri}/x"], 2, "inside the lake"),
        ):
            result = run(shop, "publish", *args)
            assert result.exit_code == code and says in result.output, (args, result.output)
    assert (other / "mine" / "note.txt").read_text() == "not yours"


def test_a_dry_run_is_told_what_the_run_would_be(
    spark: SparkSession, shop: singerlake.Lake, tmp_path: Path
) -> None:
    orders = shop["tap-shop.orders"]
    for options, says in (
        ({"order_by": "totl"}, "not a column of its rows"),
        ({"partition_by": "month(city)"}, "cannot be partitioned by"),
        ({"where": "rand() > 2"}, "rand"),
    ):
        for dry in (True, False):
            with pytest.raises(singerlake.SingerlakeError, match=says):
                orders.publish(str(tmp_path / "out"), spark=spark, dry_run=dry, **options)
