"""Tables that DuckDB and Spark make of a query: the same messages, log, checks and lineage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.create.create import Created
from singerlake.ops.create.table import CreateOptions, create
from tests.lineage_events import events, tell_into
from tests.needs import MORE
from tests.ops.rows_back.written import written_untimed
from tests.sql.local_cases import T, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
ALONE = EngineChoice(LOCAL)
NAME = "made.t"
Asked = tuple[str, tuple[str, ...]]
EVERYTHING: Asked = (f"select *, coalesce(s, '?') as t, n > 1 as big from {T} order by id", ("id",))
MADE: list[Asked] = [
    (f"select flag, count(*) as n, sum(d) as total from {T} group by flag order by flag", ()),
    (f"select o.id, l.amount from {T} o join tap_x.lines l on o.id = l.order_id order by 1, 2", ()),
    (f"select id, s from {T} version as of '@1' where id > 99", ("id",)),
]
REFUSED: list[Asked] = [
    (f"select s, s from {T}", ()),
    (f"select id, s from {T}", ("s",)),
    (f"select flag, id from {T} where flag", ("flag",)),
    (f"select obj, id from {T}", ("obj",)),
    (f"select id from {T}", ("nope",)),
    (f"select nope from {T}", ()),
]


@pytest.fixture
def lakes(lake: Lake) -> dict[str, Lake]:
    fill(lake)
    other = shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")
    return {"here": lake, "there": Lake.open(str(other))}


def made(lake: Lake, asked: Asked, choice: EngineChoice, **said: Any) -> Created | tuple[Any, str]:
    change = ChangeOptions(comment="why", metadata={"a": "b"}, **said)
    try:
        return create(lake, NAME, CreateOptions(asked[0], asked[1], None, change), choice)
    except SingerlakeError as error:
        return type(error), str(error)


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    "asked", [EVERYTHING, *(pytest.param(one, marks=MORE) for one in [*MADE, *REFUSED])]
)
def test_table_of_a_query_is_that_of_spark(
    spark: SparkSession,
    lakes: dict[str, Lake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: Asked,
) -> None:
    found = {}
    for name, choice in (("here", ALONE), ("there", EngineChoice.of(spark=spark))):
        (tmp_path / name).mkdir()
        file, lake = tell_into(tmp_path / name, monkeypatch), lakes[name]
        would = made(lake, asked, choice, dry_run=True)
        done = made(lake, asked, choice, new_version=True)
        found[name] = (would, done)
        if isinstance(done, Created):
            assert done.version is not None
            told = events(file)
            assert [one["eventType"] for one in told] == ["START", "COMPLETE"]
            lineage = str(list(map(shown, told))).replace(lake.store.uri, "")
            version = (done.version.number, done.version.fingerprint, done.version.rows)
            untimed = replace(done, version=None)
            found[name] = (would, untimed, version, written_untimed(lake.table(NAME), 1), lineage)
    assert found["here"] == found["there"]
    assert isinstance(found["here"][1], Created) == (asked not in REFUSED)


def shown(event: dict[str, Any]) -> Any:
    columns = [out["facets"].get("columnLineage", {}).get("fields") for out in event["outputs"]]
    return [one["name"] for one in event["inputs"]], columns


def test_simple_sql_needs_no_java(lake: Lake, no_java: EngineChoice) -> None:
    fill(lake)
    asked = (f"select id, upper(Date) as d from {T} where id < 5", ("id",))
    done = made(lake, asked, no_java)
    assert isinstance(done, Created)
    assert (done.rows, done.transaction) == (4, 1)
    assert [str(one) for one in done.sources] == ["tap-x.orders at transaction 2"]


@pytest.mark.parametrize("select", ["reverse(s) as r", "sum(x) as x", "upper(s) as u"])
def test_other_sql_is_for_spark(lake: Lake, no_java: EngineChoice, select: str) -> None:
    fill(lake)
    sql = f"select {select} from {T}" + (" where s <> 'a'" if "upper" in select else "")
    assert made(lake, (sql, ()), no_java)[1] == "Java starts"  # type: ignore[index]
    refused = made(lake, (sql, ()), ALONE)
    assert "needs Spark: use the engine auto or spark" in refused[1]  # type: ignore[index]
    assert NAME not in [str(one) for one in lake.tables()]
