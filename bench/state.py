"""The newest row of each key as Parquet, from a lake's files: Spark here, DuckDB and Polars beside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.harness import BIN, Case, Cost, command, machine, number, rounds, times_table

COLUMNS = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "email": "VARCHAR",
    "status": "VARCHAR",
    "amount": "DOUBLE",
    "count": "BIGINT",
    "active": "BOOLEAN",
    "updated_at": "TIMESTAMPTZ",
    "address": "STRUCT(street VARCHAR, city VARCHAR, zip VARCHAR)",
    "tags": "VARCHAR[]",
}
OURS = """
import shutil, sys, time
from singerlake.lake import Lake
from singerlake.sql.state import index_build
from singerlake.engine.spark.jvm.session import session
spark = session("local[2]")
spark.range(1).count()
lake = Lake.open(sys.argv[1])
table = lake.table(lake.tables()[0])
for _ in range(TIMES):
    shutil.rmtree(sys.argv[1] + "/index", ignore_errors=True)
    started = time.perf_counter()
    built = index_build.ensure(spark, table, table.snapshot())
print(time.perf_counter() - started, built.marker.rows)
"""
DUCKDB = """
import glob, sys, time, duckdb
files = sorted(glob.glob(sys.argv[1] + "/raw/*/*/*/*.gz"))
con = duckdb.connect()
con.execute("set threads = 2")
con.execute("set enable_progress_bar = false")
started = time.perf_counter()
con.execute(f'''copy (
    select record.* from read_json({files!r}, format = 'newline_delimited', columns = {COLUMNS})
    where type = 'RECORD'
    qualify row_number() over (partition by record.id order by time_extracted desc) = 1
) to '{sys.argv[2]}' (format parquet, compression zstd, compression_level 1)''')
seconds = time.perf_counter() - started
print(seconds, con.execute(f"select count(*) from '{sys.argv[2]}'").fetchone()[0])
"""
POLARS = """
import glob, os, sys, time
os.environ["POLARS_MAX_THREADS"] = "2"
import polars as pl
files = sorted(glob.glob(sys.argv[1] + "/raw/*/*/*/*.gz"))
address = pl.Struct({"street": pl.String, "city": pl.String, "zip": pl.String})
record = {"id": pl.Int64, "name": pl.String, "email": pl.String, "status": pl.String,
          "amount": pl.Float64, "count": pl.Int64, "active": pl.Boolean, "updated_at": pl.String,
          "address": address, "tags": pl.List(pl.String)}
schema = {"type": pl.String, "record": pl.Struct(record), "time_extracted": pl.String}
started = time.perf_counter()
rows = pl.scan_ndjson(files, schema=schema).filter(pl.col("type") == "RECORD")
rows = rows.select("record", "time_extracted").unnest("record")
rows = rows.with_columns(pl.col("updated_at").str.to_datetime(time_zone="UTC"))
rows = rows.sort("time_extracted").unique("id", keep="last").drop("time_extracted")
rows.sink_parquet(sys.argv[2], compression="zstd", compression_level=1)
seconds = time.perf_counter() - started
print(seconds, pl.scan_parquet(sys.argv[2]).select(pl.len()).collect().item())
"""


def run(folder: Path, rows: int, count: int) -> str:
    parts = []
    for versions in (1, 5):
        lake = fill(folder / f"lake-{versions}", rows // versions, versions)
        cases = {
            "singerlake on Spark": case(ours(1), lake, folder, rows // versions),
            "DuckDB": case(duckdb(), lake, folder, rows // versions),
        }
        if rows <= 2_000_000:
            # What the first job of a session costs besides is as much as the job.
            cases["singerlake, third job of the session"] = case(
                ours(3), lake, folder, rows // versions
            )
            # It holds all rows at once, in 2 GB a million.
            cases["Polars"] = case(POLARS, lake, folder, rows // versions)
        times = rounds(cases, count)
        shutil.rmtree(lake)
        theirs = times["DuckDB"].median
        ratios = [
            f"{name}: {number(of.median / theirs)}× the time of DuckDB."
            for name, of in times.items()
            if name.startswith("singerlake")
        ]
        parts.append(
            f"{rows:,} records, {'one version' if versions == 1 else f'{versions} versions'} of each "
            f"row:\n\n{times_table(times, rows)}\n\n" + "\n\n".join(ratios)
        )
    return "\n\n".join([machine("pyspark", "pyarrow", "duckdb", "polars"), *parts])


def fill(lake: Path, rows: int, versions: int) -> Path:
    """A lake that holds each row several times, each time later."""
    config = lake.parent / "config.json"
    config.write_text(json.dumps({"lake": str(lake), "tap_id": "b"}))
    for version in range(1, versions + 1):
        make = [sys.executable, "bench/make_messages.py", str(rows)]
        maker = subprocess.Popen(make, stdout=subprocess.PIPE)
        later = subprocess.Popen(
            ["sed", f"s/2026-02-01T/2026-02-{version:02d}T/"],
            stdin=maker.stdout,
            stdout=subprocess.PIPE,
        )
        target = [str(BIN / "target-singerlake"), "--config", str(config)]
        subprocess.run(
            target,
            check=True,
            stdin=later.stdout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return lake


def ours(times: int) -> str:
    """The program that makes the state so often in a session, and says how long it took last."""
    return OURS.replace("TIMES", f"{times}")


def duckdb() -> str:
    record = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    columns = f"{{type: 'VARCHAR', record: 'STRUCT({record})', time_extracted: 'VARCHAR'}}"
    return DUCKDB.replace("{COLUMNS}", columns.replace("{", "{{").replace("}", "}}"))


def case(code: str, lake: Path, folder: Path, rows: int) -> Case:
    """A program of its own, which says how long it took once it had started, and found how much."""

    def once() -> Cost:
        out = folder / "out.parquet"
        found: list[str] = []

        def take(pipe: object) -> None:
            found.extend(pipe.read().decode().split())  # type: ignore[attr-defined]

        whole = command([sys.executable, "-c", code, str(lake), str(out)], take=take)
        assert int(found[1]) == rows, found
        out.unlink(missing_ok=True)
        return Cost(float(found[0]), whole.cpu, whole.peak)

    return once
