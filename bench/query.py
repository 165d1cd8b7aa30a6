"""A version that has its index, beside Spark reading that Parquet itself; and the next head."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.harness import (
    BIN,
    Case,
    Times,
    machine,
    messages,
    number,
    rounds,
    timed,
    times_table,
)

QUERIES = {
    "count": "select count(*) as n from {}",
    "sum of a column, grouped": "select status, sum(amount) as s from {} group by status",
    "a filter on text": "select count(*) as n from {} where email like '%7@alpha%'",
    "every column of every row": "select sum(length(to_json(struct(*)))) as n from {}",
}


def run(folder: Path, rows: int, count: int) -> str:
    from singerlake.engine.spark.jvm.session import session
    from singerlake.lake import Lake
    from singerlake.snapshot import index
    from singerlake.sql.queries.query import query
    from tests.frozen import freeze_on_spark as freeze

    spark = session("local[2]")
    sync(folder, messages(folder / "messages.jsonl", rows))
    lake = Lake.open(str(folder / "lake"))
    table = lake.table(lake.tables()[0])
    first = timed(lambda: freeze(spark, table))
    built = index.load(table, table.snapshot().earliest_equal())
    assert built is not None
    files = [str(folder / "lake" / part.key) for part in built.parts]

    def ours(name: str, sql: str) -> Any:
        with query(spark, lake, sql.format(name)) as answer:
            return sorted(map(repr, answer.rows()))

    def theirs(sql: str) -> Any:
        frame = spark.read.parquet(*files)
        frame = frame.select(*frame.columns[: len(built.shape.columns)])  # without provenance
        frame.createOrReplaceTempView("plain")
        return sorted(repr(tuple(row)) for row in spark.sql(sql.format("plain")).collect())

    cases: dict[str, Case] = {}
    for name, sql in QUERIES.items():
        assert ours("b.stream_0.1", sql) == theirs(sql), name

        def mine(sql: str = sql) -> Any:
            return timed(lambda: ours("b.stream_0.1", sql))

        def plain(sql: str = sql) -> Any:
            return timed(lambda: theirs(sql))

        cases[f"{name}: version"] = mine
        cases[f"{name}: its Parquet"] = plain
    times = rounds(cases, max(5, count), warm_up=True)
    ratios = [
        f"- {name}: {number(ratio(times, name))}× the time of Spark on the same Parquet"
        for name in QUERIES
    ]
    heads = head(folder, rows, count, lambda: ours("b.stream_0", QUERIES["count"]))
    return "\n\n".join(
        [
            machine("pyspark", "pyarrow"),
            f"{rows:,} rows; a warm session:",
            times_table(times),
            "\n".join(ratios),
            "The head, one transaction after its materialized snapshot (1,000 rows changed and 1,000 new):",
            times_table(heads),
            f"The first freeze of the same table took {number(first.seconds)} s: "
            f"{number(first.seconds / heads['next head, materialized by the query'].median)} times as long.",
        ]
    )


def ratio(times: dict[str, Times], name: str) -> float:
    return times[f"{name}: version"].median / times[f"{name}: its Parquet"].median


def head(folder: Path, rows: int, count: int, ask: Any) -> dict[str, Times]:
    """A small sync, then the query that has to make the index; and the same query again."""

    def changed() -> Any:
        text = (folder / "messages.jsonl").open("rb")
        small = folder / "small.jsonl"
        with text, small.open("wb") as out:
            out.writelines(next(text) for _ in range(1001))
            for n in range(rows, rows + 1000):
                out.write(next(text).replace(b'"id": 1000', b'"id": %d' % n, 1))
        sync(folder, small)
        return timed(ask)

    return rounds(
        {
            "next head, materialized by the query": changed,
            "the same query again": lambda: timed(ask),
        },
        max(3, count),
    )


def sync(folder: Path, source: Path) -> None:
    config = folder / "config.json"
    config.write_text(json.dumps({"lake": str(folder / "lake"), "tap_id": "b"}))
    with source.open("rb") as stdin:
        subprocess.run(
            [str(BIN / "target-singerlake"), "--config", str(config)],
            check=True,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
