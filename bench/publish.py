"""A table published in order as Parquet, and what changed of it after that; beside DuckDB.

The session is warm, so that what is measured is the work. The table has an index, as one has that was
frozen or read before. DuckDB reads the same rows from one Parquet file, and runs in this process.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import Cost, Times, machine, number, rounds, table, timed, times_table

CORES = 2
PART = 100
"""An increment changes one row of so many."""
KEYS = 20
"""Rows that are looked for, one by one."""
BUILD, DUCKDB = "singerlake, a full build", "DuckDB: COPY (… ORDER BY …)"
TAIL, RANDOM = "refresh after changes at the end", "refresh after random changes"
WORKERS, JAVA, DRIVER = (
    "Python workers, all together",
    "Java, more than before",
    "driver, more than before",
)
WHO = (WORKERS, JAVA, DRIVER)
BEGIN = 1_577_836_800
"""The first second of 2020, when the first row was ordered."""
_ROWS = """
    select i as id, to_timestamp({begin} + i + hash(i) % 600) as ordered_at,
           'customer ' || hash(i * 7) % 100000 as customer, ((hash(i * 3) % 1000000) / 100.0)::double as amount,
           ['new', 'paid', 'sent', 'back'][(1 + hash(i * 5) % 4)::bigint] as status,
           case when i % 3 = 0 then null else 'note ' || hash(i * 11) % 1000000 end as note,
           {turn} as turn
"""


def run(folder: Path, rows: int, count: int) -> str:
    from singerlake.engine.spark.jvm.session import session

    spark = session(f"local[{CORES}]")
    few = Bench(spark, harness.fresh(folder / "few"), max(1000, rows // 10))
    flat = {few.rows: few.memory()}
    bench = Bench(spark, harness.fresh(folder / "all"), rows)
    flat[rows] = bench.memory()
    built = rounds({BUILD: bench.build, DUCKDB: bench.duckdb}, count, warm_up=True)
    increments = rounds({TAIL: bench.tail, RANDOM: bench.spread}, count)
    share = {name: ratio(increments, name, built, BUILD) for name in (TAIL, RANDOM)}
    return "\n\n".join(
        [
            machine("pyspark", "pyarrow", "duckdb"),
            f"{rows:,} rows in random order, published as Parquet by `ordered_at`:",
            times_table(built, rows),
            f"- {number(ratio(built, BUILD, built, DUCKDB))}× the time of DuckDB",
            f"One row of {PART} changed: new rows at the end and one update for nine of them, among the "
            "last; and updates of any rows. From the changed table to the commit:",
            times_table(increments, max(1, rows // PART)),
            *(f"- {name}: {number(share[name])}× the time of a full build" for name in share),
            f"Files after that: {bench.told()}",
            f"{KEYS} rows by their key, and an hour of rows, read by DuckDB from the published files and "
            "from one Parquet file with the same rows, unsorted:",
            bench.reads(),
            "Maximum memory of a full build, in MiB (Java uses all that it is allowed before it collects):",
            table(
                ["rows", *WHO],
                [
                    [f"{of:,}", *(f"{most[who] / 2**20:,.0f}" for who in WHO)]
                    for of, most in flat.items()
                ],
            ),
        ]
    )


def ratio(times: dict[str, Times], case: str, others: dict[str, Times], other: str) -> float:
    return times[case].median / others[other].median


class Bench:
    """One table, and where it is published."""

    def __init__(self, spark: Any, folder: Path, rows: int) -> None:
        from singerlake.lake import Lake

        folder.mkdir(parents=True)
        self.spark, self.folder, self.rows = spark, folder, rows
        self.ids = rows
        self.turn = 0
        self.source = folder / "rows.parquet"
        shuffled = f"select * from ({_ROWS.format(begin=BEGIN, turn=0)} from range({rows}) t(i)) order by hash(id)"
        self._duck(f"copy ({shuffled}) to '{self.source}' (format parquet, codec zstd)")
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self._upload(self.source)
        self.base: Any = None
        with self._asked() as asked:
            asked.rows().frame.count()  # makes the index

    def _duck(self, sql: str) -> list[Any]:
        import duckdb

        with duckdb.connect(config={"threads": CORES}) as db:
            return db.execute(sql).fetchall()

    def _upload(self, path: Path) -> None:
        from bench.upload import upload

        upload(self.spark, self.lake, "b.orders", path, key="id" if self.ids == self.rows else "")

    def _asked(self) -> Any:
        from singerlake.ops.publish.projected import Projected

        return Projected(self.spark, self.lake, "select * from b.orders")

    def _projection(self, to: str) -> Any:
        from singerlake.publish.projection import Format, OrderKey, Projection, Target

        target = Target(str(self.folder / to), Format.PARQUET)
        order = (OrderKey("ordered_at"),)
        return Projection(
            "orders", "select * from b.orders", key=("id",), order_by=order, target=target
        )

    def _schema(self, asked: Any, destination: Any) -> Any:
        from pyspark.sql import types as T  # noqa: N812
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(T.StructType(asked.fields), timezone="UTC")
        return destination.file_schema(schema, self.base)

    def _commit(self, asked: Any, destination: Any, *files: Any) -> None:
        from singerlake.publish.published import Commit, Position

        projection = destination.projection
        where = self.lake.store.uri
        position = Position(projection.name, projection.definition, where, asked.sources)
        schema = self._schema(asked, destination)
        self.base = destination.commit(self.base, Commit(position, schema, *files))

    def build(self) -> Cost:
        from singerlake.ops.publish.write.ordered_files import write_ordered
        from singerlake.publish.destinations.opening import open_destination

        projection = self._projection("published")
        harness.fresh(self.folder / "published")
        self.base = None

        def work() -> None:
            destination = open_destination(projection)
            with self._asked() as asked:
                schema = self._schema(asked, destination)
                files = write_ordered(asked.source(), projection, destination, schema)
                self._commit(asked, destination, [], files)

        cost = timed(work)
        assert self.base.rows == self.rows, self.base.rows
        return cost

    def duckdb(self) -> Cost:
        to = self.folder / "duckdb.parquet"
        ordered = f"select * from '{self.source}' order by ordered_at, id"
        cost = timed(lambda: self._duck(f"copy ({ordered}) to '{to}' (format parquet, codec zstd)"))
        assert self._duck(f"select count(*) from '{to}'") == [(self.rows,)]
        return cost

    def tail(self) -> Cost:
        new = max(1, self.rows // PART * 9 // 10)
        updates = max(1, self.rows // PART - new)
        first = self.ids - updates * 10
        ids = f"select {first} + 10 * i from range({updates}) t(i) union all select {self.ids} + i from range({new}) t(i)"
        self.ids += new
        return self._increment(ids)

    def spread(self) -> Cost:
        step = self.turn + 1
        return self._increment(
            f"select (i * {PART} + {step}) % {self.rows} from range({max(1, self.rows // PART)}) t(i)"
        )

    def _increment(self, ids: str) -> Cost:
        from singerlake.ops.publish.publish_changes import planned_increment
        from singerlake.ops.publish.write.increments import Publication
        from singerlake.publish.destinations.opening import open_destination

        self.turn += 1
        path = self.folder / "changes.parquet"
        self._duck(
            f"copy ({_ROWS.format(begin=BEGIN, turn=self.turn)} from ({ids}) t(i)) to '{path}' (format parquet)"
        )
        self._upload(path)
        projection = self._projection("published")

        def work() -> None:
            destination = open_destination(projection)
            base = destination.published()
            assert base is not None
            self.base = base
            with self._asked() as asked:
                since = base.position.sources
                assert asked.obstacle(since) is None
                schema = self._schema(asked, destination)
                publication = Publication(projection, destination, base, schema)
                with planned_increment(asked, publication) as planned:
                    done = planned.write()
                assert not done.full_build
                self._commit(asked, destination, done.kept, done.added, done.removed)

        cost = timed(work)
        assert self.base.rows == self.ids, (self.base.rows, self.ids)
        return cost

    def told(self) -> str:
        from singerlake.publish.overlap import overlap

        files = self.base.files
        size = sum(file.bytes for file in files) / 2**20
        share = overlap(files)
        return f"{len(files)}, {size:,.0f} MiB, {share:.0%} of the rows in ranges that overlap."

    def reads(self) -> str:
        published = [str(self.folder / "published" / file.path) for file in self.base.files]
        unordered = [str(self.source)]
        keys = [self.rows // KEYS * n for n in range(KEYS)]
        noon = BEGIN + 12 * 3600
        hour = f"ordered_at between to_timestamp({noon}) and to_timestamp({noon + 3600})"
        asks = {
            f"{KEYS} rows by id": [f"id = {key}" for key in keys],
            f"{KEYS} rows by ordered_at": [
                f"ordered_at = to_timestamp({BEGIN + key})" for key in keys
            ],
            "an hour": [hour],
        }
        lines = []
        for name, conditions in asks.items():
            seconds = [self._asking(paths, conditions) for paths in (published, unordered)]
            touched = [groups(paths, name, keys) for paths in (published, unordered)]
            lines.append(
                [
                    name,
                    *(f"{files:,} / {some:,} of {every:,}" for files, some, every in touched),
                    *(number(one) for one in seconds),
                    f"{number(seconds[1] / seconds[0])}×",
                ]
            )
        headings = [
            "",
            "published: files / row groups",
            "unsorted",
            "published s",
            "unsorted s",
            "",
        ]
        return table(headings, lines)

    def _asking(self, paths: list[str], conditions: list[str]) -> float:
        import duckdb

        with duckdb.connect(config={"threads": CORES}) as db:
            best = []
            for _ in range(3):
                started = time.perf_counter()
                for condition in conditions:
                    db.execute(
                        f"select * from read_parquet({paths!r}) where {condition}"
                    ).fetchall()
                best.append(time.perf_counter() - started)
        return min(best)

    def memory(self) -> dict[str, int]:
        """The most that a full build took: by all Python workers, by Java, and by the driver."""
        before, most, done = memory_now(), dict.fromkeys(WHO, 0), threading.Event()

        def look() -> None:
            while not done.wait(0.05):
                now = memory_now()
                for who in WHO:
                    # What the driver and Java had before, the making of the rows left there.
                    grown = now[who] - (before[who] if who != WORKERS else 0)
                    most[who] = max(most[who], grown)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            self.build()
        finally:
            done.set()
            looking.join()
        return most


def memory_now() -> dict[str, int]:
    """Memory, but for what is shared, of this process and of those that it has started."""
    page, found = os.sysconf("SC_PAGE_SIZE"), dict.fromkeys(WHO, 0)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if not ours(int(entry.name)):
                continue
            said = (entry / "cmdline").read_bytes()
            who = WORKERS if b"pyspark.daemon" in said else JAVA if b"java" in said else DRIVER
            pages = (entry / "statm").read_text().split()
            found[who] += (int(pages[1]) - int(pages[2])) * page
        except (OSError, ValueError, IndexError):
            continue
    return found


def ours(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def groups(paths: list[str], ask: str, keys: list[int]) -> tuple[int, int, int]:
    """Files and row groups that statistics do not rule out, for all rows that are looked for."""
    from datetime import datetime, timedelta, timezone

    import pyarrow.parquet as pq

    begin = datetime(2020, 1, 1, tzinfo=timezone.utc)
    column = "id" if ask.endswith("id") else "ordered_at"
    if ask == "an hour":
        wanted = [(begin + timedelta(hours=12), begin + timedelta(hours=13))]
    elif column == "id":
        wanted = [(key, key) for key in keys]  # type: ignore[misc]
    else:
        wanted = [(begin + timedelta(seconds=key),) * 2 for key in keys]  # type: ignore[misc]
    files: set[tuple[int, str]] = set()
    some = every = 0
    for path in paths:
        about = pq.read_metadata(path)
        place = about.schema.names.index(column)
        every += about.num_row_groups * len(wanted)
        for group in range(about.num_row_groups):
            known = about.row_group(group).column(place).statistics
            for turn, (low, high) in enumerate(wanted):
                if known is None or (known.min <= high and low <= known.max):
                    files.add((turn, path))
                    some += 1
    return len(files), some, every
