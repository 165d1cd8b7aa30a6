"""Files into tables: a CSV as a new table, rows upserted, a few cells changed; beside peers.

The session is warm, so that what is measured is the work: each command adds the start of Java, as
the topic `small` shows. The peers run in this process, with as many threads as Spark has cores.
"""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import Cost, Times, machine, number, rounds, timed, times_table

CELLS = 100
"""Cells of the small change."""
SMALL = 100
"""The small table has so many times fewer rows."""
CORES = 2
COLUMNS = ("id", "name", "email", "amount", "count", "active", "updated_at", "note")


def run(folder: Path, rows: int, count: int) -> str:
    from singerlake.engine.spark.jvm.session import session

    spark = session(f"local[{CORES}]")
    csv = write_csv(folder / "rows.csv", range(rows))
    times = rounds(new_table_cases(spark, folder, csv, rows), count, warm_up=True)
    upserts = upsert_cases(spark, folder, rows)
    upserted = rounds(upserts, count)
    few = rounds(few_cells_cases(spark, folder, rows), max(3, count), warm_up=True)
    size = csv.stat().st_size / 2**20
    return "\n\n".join(
        [
            machine("pyspark", "pyarrow", "duckdb", "deltalake", "pyiceberg"),
            f"A CSV of {rows:,} rows, {size:,.0f} MiB, as a new table: types found in all rows of "
            "it, written, and committed.",
            times_table(times, rows),
            ratios(times, OURS, DUCKDB, DELTA),
            f"{rows // 10:,} rows of Parquet, half of them new, upserted by their key into "
            f"{rows:,}; ours also with a materialized snapshot:",
            times_table(upserted, rows // 10),
            ratios(upserted, UPSERT, MERGE, ICEBERG),
            ratios(upserted, UPSERT_INDEXED, MERGE, ICEBERG),
            f"{CELLS} cells changed by a CSV of {CELLS} rows with the key and one column, into "
            "a table with a materialized snapshot:",
            times_table(few),
            f"- {rows:,} rows: {number(ratio(few, LARGE, FEW))}× the time of {rows // SMALL:,}",
        ]
    )


OURS, OURS_KEYED = "singerlake upload, no key", "singerlake upload, key id"
DUCKDB, DELTA = "DuckDB: CSV → Parquet", "delta-rs: write_deltalake"
UPSERT, UPSERT_INDEXED = "singerlake upload", "singerlake upload, materialized"
MERGE, ICEBERG = "delta-rs: merge", "pyiceberg: upsert"
LARGE, FEW = "the large table", "the small table"


def write_csv(path: Path, ids: range) -> Path:
    """Rows of about 90 bytes; some cells are quoted, some null."""
    chance = random.Random(7)
    with path.open("w", encoding="utf-8") as out:
        out.write(",".join(COLUMNS) + "\n")
        for n in ids:
            note = f'"note {n}, with a comma"' if n % 10 == 0 else "" if n % 3 else f"note {n}"
            out.write(
                f"{n},name {n},user{n}@example.com,{chance.randrange(10**6) / 100},{n % 97},"
                f"{'true' if n % 2 else 'false'},2026-01-{1 + n % 28:02d}T10:00:{n % 60:02d}Z,{note}\n"
            )
    return path


def upload(
    spark: Any, lake: Any, table: str, path: Path, *, key: str = "", mode: str = "upsert"
) -> Any:
    from singerlake.engine.choice import EngineChoice
    from singerlake.errors import NotFoundError
    from singerlake.ops.change.plan import Mode
    from singerlake.ops.create.create import new_name
    from singerlake.ops.upload.upload import UploadOptions
    from singerlake.ops.upload.upload import upload as job
    from singerlake.rows.input.files import open_files

    try:
        target = lake.find(table)[0]
    except NotFoundError:
        target = new_name(table)
    keys = [key] if key and not hasattr(target, "snapshot") else []
    options = UploadOptions(Mode(mode), keys)
    with open_files([str(path)], io.BytesIO()) as files:
        return job(lake, target, files, options, EngineChoice.of(spark=spark))


def new_table_cases(spark: Any, folder: Path, csv: Path, rows: int) -> dict[str, Any]:
    def ours(key: str) -> Cost:
        from singerlake.lake import Lake

        lake = Lake.open(str(harness.fresh(folder / "lake")), create=True)
        done: list[Any] = []
        cost = timed(lambda: done.append(upload(spark, lake, "b.t", csv, key=key)))
        assert done[0].changed.inserted == rows
        return cost

    def duckdb() -> Cost:
        import duckdb

        to = folder / "duck.parquet"
        with duckdb.connect(config={"threads": CORES}) as db:
            cost = timed(
                lambda: db.execute(f"copy (from '{csv}') to '{to}' (format parquet, codec zstd)")
            )
            assert db.sql(f"select count(*) from '{to}'").fetchall() == [(rows,)]
        return cost

    def delta() -> Cost:
        import pyarrow.csv as pv
        from deltalake import DeltaTable, write_deltalake

        root = str(harness.fresh(folder / "delta"))
        cost = timed(lambda: write_deltalake(root, pv.open_csv(csv)))
        assert DeltaTable(root).to_pyarrow_dataset().count_rows() == rows
        return cost

    return {OURS: lambda: ours(""), OURS_KEYED: lambda: ours("id"), DUCKDB: duckdb, DELTA: delta}


def upsert_cases(spark: Any, folder: Path, rows: int) -> dict[str, Any]:
    """Each round begins with the same table; that it is copied does not count."""
    import pyarrow.csv as pv
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, write_deltalake

    from singerlake.lake import Lake
    from tests.frozen import freeze_on_spark as freeze

    base = folder / "base.parquet"
    pq.write_table(pv.read_csv(folder / "rows.csv"), base)
    more = rows // 10
    changed = write_csv(folder / "more.csv", range(rows - more // 2, rows + more - more // 2))
    pq.write_table(pv.read_csv(changed), folder / "more.parquet")
    lake = Lake.open(str(folder / "base-lake"), create=True)
    upload(spark, lake, "b.t", base, key="id")
    shutil.copytree(folder / "base-lake", folder / "indexed-lake")
    freeze(spark, Lake.open(str(folder / "indexed-lake")).find("b.t")[0])
    write_deltalake(str(folder / "base-delta"), pq.read_table(base))

    def ours(begin: str) -> Cost:
        shutil.copytree(folder / begin, harness.fresh(folder / "lake"))
        copy = Lake.open(str(folder / "lake"))
        done: list[Any] = []
        cost = timed(lambda: done.append(upload(spark, copy, "b.t", folder / "more.parquet")))
        found = done[0].changed
        assert found.inserted == more - more // 2, found
        return cost

    def merge() -> Cost:
        shutil.copytree(folder / "base-delta", harness.fresh(folder / "delta"))
        table = DeltaTable(str(folder / "delta"))
        source = pq.read_table(folder / "more.parquet")
        merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        cost = timed(
            lambda: merger.when_matched_update_all().when_not_matched_insert_all().execute()
        )
        assert table.to_pyarrow_dataset().count_rows() == rows + more - more // 2
        return cost

    return {
        UPSERT: lambda: ours("base-lake"),
        UPSERT_INDEXED: lambda: ours("indexed-lake"),
        MERGE: merge,
        ICEBERG: lambda: iceberg(folder, base, rows, more),
    }


def iceberg(folder: Path, base: Path, rows: int, more: int) -> Cost:
    import pyarrow.parquet as pq
    from pyiceberg.catalog.sql import SqlCatalog

    root = harness.fresh(folder / "iceberg")
    root.mkdir()
    catalog = SqlCatalog("b", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("b")
    first = pq.read_table(base)
    table = catalog.create_table("b.t", schema=first.schema)
    table.append(first)
    source = pq.read_table(folder / "more.parquet")
    cost = timed(lambda: table.upsert(source, join_cols=["id"]))
    assert table.scan().count() == rows + more - more // 2
    return cost


def few_cells_cases(spark: Any, folder: Path, rows: int) -> dict[str, Any]:
    from singerlake.lake import Lake
    from tests.frozen import freeze_on_spark as freeze

    lake = Lake.open(str(folder / "few"), create=True)
    turns = iter(range(1_000_000))
    sizes = {"b.large": rows, "b.small": max(CELLS, rows // SMALL)}
    for name, size in sizes.items():
        upload(spark, lake, name, write_csv(folder / "few.csv", range(size)), key="id")

    def change(name: str) -> Cost:
        freeze(spark, lake.find(name)[0])  # leaves an index of the state
        turn = next(turns)
        step = sizes[name] // CELLS
        path = folder / "cells.csv"
        path.write_text(
            "id,note\n" + "".join(f"{n * step},turn {turn} of {n}\n" for n in range(CELLS))
        )
        done: list[Any] = []
        cost = timed(lambda: done.append(upload(spark, lake, name, path, mode="update")))
        assert done[0].changed.updated == CELLS, done
        return cost

    return {LARGE: lambda: change("b.large"), FEW: lambda: change("b.small")}


def ratio(times: dict[str, Times], case: str, other: str) -> float:
    return times[case].median / times[other].median


def ratios(times: dict[str, Times], case: str, *others: str) -> str:
    return "\n".join(
        f"- {case}: {number(ratio(times, case, other))}× the time of {other}" for other in others
    )
