"""A frozen version read by other engines, and the same engines on the same Parquet files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import (
    BIN,
    Case,
    Cost,
    Times,
    command,
    machine,
    messages,
    number,
    rounds,
    timed,
)
from bench.harness import times_table as table_of
from bench.query import sync

SMALL = 1000
ID = "b.stream_0"
COLD = {
    "DuckDB on its Parquet": """
import sys, duckdb
sql = f"select count(*), max(id) from read_parquet({sys.argv[1:]!r})"
assert duckdb.sql(sql).fetchall() == [(1000, 999)]
""",
    "PySpark on its Parquet": """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master("local[2]").getOrCreate()
row = spark.read.parquet(*sys.argv[1:]).agg(F.count("*"), F.max("id")).first()
assert tuple(row) == (1000, 999), row
spark.stop()
""",
}
"""Programs that answer the same question from a cold shell."""
OPEN_DUCKLAKE = """
import sys, duckdb, duckdb_extension_ducklake
path = duckdb_extension_ducklake.__path__[0]
c = duckdb.connect()
c.execute(f"load '{path}/extensions/v{duckdb.__version__}/ducklake.duckdb_extension'")
c.execute(f"attach 'ducklake:{sys.argv[1]}' as lake")
"""
FILL_DUCKLAKE = "c.execute(f'create table lake.rows as from read_parquet({sys.argv[2:]!r})')"
ASK_DUCKLAKE = """
assert c.sql("select count(*), max(id) from lake.rows").fetchall() == [(1000, 999)]
"""
DUCKLAKE_PYTHON = Path(__file__).parents[1] / ".venv-duckdb" / "bin" / "python"
"""Has the release of DuckDB for which DuckLake's extension comes as a wheel."""
SPARK_RATIO = 1.2
"""How much longer a read through the source may take than Spark's own of the same files."""


def run(folder: Path, rows: int, count: int) -> str:
    cold = _cold(folder / "small", max(5, count))
    state, files = _version(folder / "large", rows)
    read = rounds(_reads(state, files, rows), max(3, count), warm_up=True)
    spark = rounds(_on_spark(folder / "large", files, rows), max(3, count), warm_up=True)
    return "\n\n".join(
        [
            machine("duckdb", "polars", "pyarrow", "pyspark"),
            f"The first answer (`count(*), max(id)`) about a version of {SMALL:,} rows, from a cold "
            "shell to the end of the process (DuckLake with DuckDB 1.5.5):",
            table_of(cold),
            f"A row by its id, and one hundredth of {rows:,} rows by a range of ids, one column:",
            table_of(read),
            _ratios(read, ("Arrow", "Polars, lazy", "DuckDB, a view"), " of its Parquet"),
            "Spark, in a warm session, all columns:",
            table_of(spark),
            _ratios(spark, ("the source", "the source, no pushdown"), None)
            + f"\n- The goal is {SPARK_RATIO:g} with pushdown.",
        ]
    )


def _version(folder: Path, rows: int) -> tuple[Any, list[str]]:
    """Sync and freeze; return the version, and its materialized files."""
    import singerlake

    folder.mkdir()
    sync(folder, messages(folder / "messages.jsonl", rows))
    table = singerlake.open(str(folder / "lake"))[ID]
    table.freeze()
    state = table.at(1)
    assert len(state) == rows
    files = sorted((folder / "lake" / "index").rglob("*.parquet"))
    return state, [str(file) for file in files]


def _cold(folder: Path, count: int) -> dict[str, Times]:
    _, files = _version(folder, SMALL)
    sql = "select count(*) as n, max(id) as last from b.stream_0.1"
    ours = [BIN / "singerlake", "--lake", folder / "lake", "query", sql]
    cases: dict[str, Case] = {
        "singerlake query": lambda: command(ours),
        "singerlake query --engine spark": lambda: command([*ours, "--engine", "spark"]),
    }
    for name, program in COLD.items():
        cases[name] = _program(sys.executable, program, files)
    ducklake = str(folder / "rows.ducklake")
    _program(DUCKLAKE_PYTHON, OPEN_DUCKLAKE + FILL_DUCKLAKE, [ducklake, *files])()
    cases["DuckLake"] = _program(DUCKLAKE_PYTHON, OPEN_DUCKLAKE + ASK_DUCKLAKE, [ducklake])
    return rounds(cases, count, warm_up=True)


def _program(python: Path | str, text: str, arguments: list[str]) -> Case:
    return lambda: command([python, "-c", text, *arguments])


def _reads(state: Any, files: list[str], rows: int) -> dict[str, Case]:
    import duckdb
    import polars as pl
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    first, last = rows // 2, rows // 2 + rows // 100
    view = duckdb.connect()
    state.to_duckdb("version", view)
    plain = ds.dataset(files)
    field = pc.field("id")
    of_arrow = {"a row": field == first, "a range": (field >= first) & (field < last)}
    polars = pl.col("id")
    of_polars = {"a row": polars == first, "a range": (polars >= first) & (polars < last)}
    of_sql = {"a row": f"id = {first}", "a range": f"id >= {first} and id < {last}"}
    wanted = {"a row": 1, "a range": rows // 100}
    cases: dict[str, Case] = {}
    for what, number_of in wanted.items():
        arrow, lazy, where = of_arrow[what], of_polars[what], of_sql[what]
        select = f"select email from {{}} where {where}"
        ways: dict[str, Callable[[], int]] = {
            "Arrow": lambda a=arrow: len(state.to_arrow(["email"], a)),
            "Arrow of its Parquet": lambda a=arrow: len(plain.to_table(["email"], filter=a)),
            "Polars, lazy": lambda f=lazy: len(
                state.scan_polars().filter(f).select("email").collect()
            ),
            "Polars, lazy of its Parquet": lambda f=lazy: len(
                pl.scan_parquet(files).filter(f).select("email").collect()
            ),
            "DuckDB, a view": lambda s=select: len(view.sql(s.format("version")).fetchall()),
            "DuckDB, a view of its Parquet": lambda s=select: len(
                duckdb.sql(s.format(f"read_parquet({files!r})")).fetchall()
            ),
        }
        for name, way in ways.items():
            cases[f"{what}: {name}"] = _checked(way, number_of)
    return cases


def _checked(way: Callable[[], int], wanted: int) -> Case:
    def case() -> Cost:
        found: list[int] = []
        cost = timed(lambda: found.append(way()))
        assert found == [wanted], (found, wanted)
        return cost

    return case


def _on_spark(folder: Path, files: list[str], rows: int) -> dict[str, Case]:
    from singerlake.engine.spark.jvm.session import session

    spark = session("local[2]")
    lake = str(folder / "lake")
    first, last = rows // 2, rows // 2 + rows // 100

    def ours(where: str, *, pushes: bool) -> None:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushes).lower())
        frame = spark.read.format("singerlake").option("lake", lake).load(f"{ID}.1")
        frame.where(where).write.format("noop").mode("overwrite").save()

    def theirs(where: str) -> None:
        frame = spark.read.parquet(*files)
        frame.where(where).write.format("noop").mode("overwrite").save()

    cases: dict[str, Case] = {}
    for what, where in {
        "a row": f"id = {first}",
        "a range": f"id >= {first} and id < {last}",
        "all rows": "true",
    }.items():
        cases[f"{what}: the source"] = lambda w=where: timed(lambda: ours(w, pushes=True))
        cases[f"{what}: the source, no pushdown"] = lambda w=where: timed(
            lambda: ours(w, pushes=False)
        )
        cases[f"{what}: Spark on its Parquet"] = lambda w=where: timed(lambda: theirs(w))
    return cases


def _ratios(times: dict[str, Times], ways: tuple[str, ...], peer: str | None) -> str:
    """List the ratio of each way's time to that of its peer."""
    lines = []
    for name, ours in times.items():
        what, _, way = name.partition(": ")
        if way in ways:
            of = f"{way}{peer}" if peer else "Spark on its Parquet"
            ratio = ours.median / times[f"{what}: {of}"].median
            lines.append(f"- {what}: {way}: {number(ratio)} times {of}")
    return "\n".join(lines)
