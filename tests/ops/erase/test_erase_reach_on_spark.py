"""An erasure of several tables at once, and of what is staged and published of them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest

import singerlake
from singerlake.errors import ConflictError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish.destinations.plain import PlainDestination
from tests.build import commit_rows
from tests.cli import call
from tests.erasing import erase
from tests.frozen import HERE
from tests.histories import here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
HER = "Zoë Planted"
SPELLED = [HER.encode(), HER.encode("utf-16-le")[2:-2], json.dumps(HER)[1:-1].encode(), b"471100"]
PEOPLE: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "city": {"type": "string"},
}
ORDERS: dict[str, Any] = {"id": {"type": "integer"}, "customer": {"type": "integer"}}
YAML = """
version: 1
projections:
- {name: people, sql: "select id, name, city from tap.people", stage: staging.people, key: id,
   to: out/people, order_by: name, partition_by: name}
- {name: ice, from: tap.people, to: out/ice, format: iceberg, order_by: name, partition_by: name}
- {name: delta, from: tap.people, to: out/delta, format: delta, order_by: name, versions: true}
- {name: cities, sql: "select city, count(*) as n from staging.people group by city",
   to: out/cities, format: csv}
"""
WHY = ("--reason", "request 12")


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> singerlake.Lake:
    """She is in all of it, and in a frozen version."""
    lake = singerlake.open(tmp_path / "lake", create=True)
    people = [{"id": n, "name": f"n{n}", "city": "Oslo"} for n in range(1, 4)]
    people.append({"id": 471100, "name": HER, "city": "Rome"})
    commit_rows(lake, "tap.people", PEOPLE, ["id"], people)
    orders = [{"id": n, "customer": 471100 if n == 2 else n} for n in range(1, 5)]
    commit_rows(lake, "tap.orders", ORDERS, ["id"], orders)
    here.freeze(lake.table("tap.people"))
    (tmp_path / "p.yml").write_text(YAML)
    lake.publish(projections=tmp_path / "p.yml", spark=spark)
    return lake


def told(place: Path) -> Iterator[tuple[Path, bytes]]:
    """All that lies in a folder: names, bytes, and what is within packed files."""
    for path in sorted(place.rglob("*")):
        yield path, str(path.relative_to(place)).encode()
        if path.is_dir():
            continue
        data = path.read_bytes()
        yield path, data
        if path.suffix == ".gz":
            yield path, gzip.decompress(data)
        if path.suffix == ".parquet":
            yield (
                path,
                json.dumps(pq.read_table(io.BytesIO(data)).to_pylist(), default=str).encode(),
            )
        if path.suffix == ".avro":
            yield path, repr([*fastavro.reader(io.BytesIO(data))]).encode()


def holding(place: Path) -> set[str]:
    return {
        str(path.relative_to(place))
        for path, data in told(place)
        if any(text in data for text in SPELLED)
    }


def ask(tmp_path: Path, *more: str) -> tuple[str, ...]:
    key = ("--key", "471100", "--projections", str(tmp_path / "p.yml"), "--wait", "0")
    also = ("--table", "tap.orders where customer = 471100", "--table", "staging.people")
    return ("erase", "tap.people", *key, *WHY, *also, *more)


def test_a_row_is_nowhere_in_tables_and_publications(
    shop: singerlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one of the publications fails, the others are done all the same."""
    out = tmp_path / "out"
    assert {name.partition("/")[0] for name in holding(out)} == {"people", "ice", "delta"}
    would = call.run_json(shop, *ask(tmp_path, "--dry-run"))
    assert (would["rows"], would["published"]) == (1, [])
    assert {*would["due"]} == {"people", "ice", "delta", "cities"}
    plain = PlainDestination.forget

    def fail(self: PlainDestination, held: Any) -> int:
        if self.projection.name == "people":
            raise ConflictError("another process published in the meantime")
        return plain(self, held)

    with monkeypatch.context() as patch:
        patch.setattr(PlainDestination, "forget", fail)
        done = call.run_json(shop, *ask(tmp_path), code=4)
    assert [(one["table"], one["rows"]) for one in (done, *done["also"])] == [
        ("tap.people", 1),
        ("tap.orders", 1),
        ("staging.people", 1),
    ]
    assert {one["projection"]: one["result"] for one in done["published"]} == {
        **dict.fromkeys(("ice", "delta", "cities"), "done"),
        "people": "failed",
    }
    assert done["still_with_rows"] == []
    assert holding(tmp_path / "lake") == set()
    assert {name.partition("/")[0] for name in holding(out)} == {"people"}
    _check_readers(out)


def _check_readers(out: Path) -> None:
    """Other tools find the others, and the version that was there."""
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    left = ["n1", "n2", "n3"]
    delta = DeltaTable(out / "delta")
    assert sorted(delta.to_pyarrow_table()["name"].to_pylist()) == left
    assert json.loads(delta.history(1)[0]["singerlake"])["versions"].keys() == {"1"}
    found = StaticTable.from_metadata(str(out / "ice")).scan().to_arrow()
    assert sorted(found["name"].to_pylist()) == left


def test_what_was_left_undone_is_done_by_the_next(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Rows are gone, and a run died before it published anew: no row is found any more."""
    rows = [{"id": 1, "name": "n1", "city": "Oslo"}, {"id": 471100, "name": HER, "city": "Rome"}]
    commit_rows(lake, "tap.people", PEOPLE, ["id"], rows)
    (tmp_path / "p.yml").write_text(
        "version: 1\nprojections:\n- {name: people, from: tap.people, to: out, format: jsonl}\n"
    )
    singerlake.Lake(lake.store).publish(projections=tmp_path / "p.yml", spark=spark)
    table = lake.table(TableName("tap", "people"))
    erase(HERE, table, "471100")
    assert holding(tmp_path / "out")
    ask = ("erase", "tap.people", "--key", "471100", *WHY)
    ask = (*ask, "--wait", "0", "--projections", str(tmp_path / "p.yml"))
    done = call.run_json(lake, *ask)
    assert (done["rows"], done["due"], done["left"]) == (0, ["people"], [])
    assert holding(tmp_path / "out") == set()
    said = Lake.open(lake.store.uri).annotations().published["people"]
    assert said.again == [] and said.erased.keys() == {"tap.people"}
    check = call.run(lake, "projections", "--exit-code", "--projections", str(tmp_path / "p.yml"))
    assert check.exit_code == 0, check.output
    again = call.run(lake, *ask)
    assert again.exit_code == 3, again.output
    assert "tap.people had no such row, at any time" in again.output


@pytest.mark.usefixtures("each_operation")
def test_a_program_erases(lake: Lake, spark: SparkSession) -> None:
    """What is staged of it is refreshed by the next publish, even if nobody came since."""
    shop = singerlake.Lake(lake.store)
    rows = [{"id": n, "customer": n % 2} for n in range(1, 5)]
    commit_rows(lake, "tap.orders", ORDERS, ["id"], rows)
    commit_rows(
        lake, "tap.notes", {**ORDERS, "of": {"type": "integer"}}, ["id"], [{"id": 1, "of": 1}]
    )
    orders = shop["tap.orders"]
    with pytest.raises(UsageError, match="list of ids"):
        orders.erase("1", reason="why", spark=spark)
    with pytest.raises(UsageError, match="select rows"):
        orders.erase(reason="why", spark=spark)
    done = orders.erase(
        where="customer = 1", reason="why", tables={"tap.notes": "of = 1"}, wait=0, spark=spark
    )
    assert done.found and done.is_done
    assert [(str(name), one.keys) for name, one in done.tables.items()] == [
        ("tap.orders", 2),
        ("tap.notes", 1),
    ]
    assert sorted(orders.at().to_arrow()["id"].to_pylist()) == [2, 4]
    before = {item.key for item in lake.store.list("")}
    none = orders.erase([4711], reason="why", wait=0, spark=spark)
    assert not none.found and none.is_done
    assert {item.key for item in lake.store.list("")} == before
