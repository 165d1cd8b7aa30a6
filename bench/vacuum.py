"""Vacuum beside ``cat`` of the same files, and dropped history of many versions of each row.

Both run in one process after one warm-up, so that Spark's start counts in neither.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from singerlake.lake import Lake, Table
from singerlake.maintenance.combine import plan_combine
from singerlake.maintenance.vacuum import COMBINE, DROP_HISTORY, VacuumOptions
from singerlake.spark.freeze import state_content
from singerlake.spark.session import session
from singerlake.spark.vacuum import vacuum_table

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows, and keys")
    parser.add_argument("--versions", type=int, default=5, help="of each row")
    parser.add_argument("--files", type=int, default=500, help="to combine")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="singerlake-bench-") as folder:
        combine(Path(folder), args)
        drop_history(Path(folder), args)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory: {own:.0f} MB driver's Python, {children:.0f} MB largest child")


def sync(lake: Path, rows: int, **config: object) -> None:
    """One run of the target over generated messages."""
    settings = lake.parent / "config.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "b", **config}))
    make = [sys.executable, str(HERE / "make_messages.py"), str(rows), "1"]
    target = [str(BIN / "target-singerlake"), "--config", str(settings)]
    maker = subprocess.Popen(make, stdout=subprocess.PIPE)
    subprocess.run(target, check=True, stdin=maker.stdout, stdout=subprocess.DEVNULL)


def table_of(lake: Path) -> Table:
    opened = Lake.open(str(lake))
    return opened.table(opened.tables()[0])


def combine(folder: Path, args: argparse.Namespace) -> None:
    spark = session()
    ours: list[float] = []
    theirs: list[float] = []
    for round_ in range(args.rounds + 1):  # the first one warms up
        lake = folder / f"small-{round_}"
        sync(lake, args.rows, file_bytes=1, block_rows=max(1, args.rows // args.files))
        table = table_of(lake)
        before = table.snapshot()
        files = sorted({str(lake / before.table.data(b.file)) for b in before.blocks})
        started = time.perf_counter()
        with (folder / "cat").open("wb") as out:
            subprocess.run(["cat", *files], check=True, stdout=out)
            out.flush()
            subprocess.run(["sync", "--file-system", str(folder / "cat")], check=True)
        theirs.append(time.perf_counter() - started)
        started = time.perf_counter()
        done = vacuum_table(lambda: spark, table, VacuumOptions(parts=(COMBINE,)))
        ours.append(time.perf_counter() - started)
        assert done.files_in == len(files), done
        assert not plan_combine(table.snapshot(), 128 << 20)
        size = done.bytes_copied
    mine, cat = statistics.median(ours[1:]), statistics.median(theirs[1:])
    print(
        f"combine {len(files)} files, {size / 1e6:.0f} MB: {mine:.2f} s, cat and sync {cat:.2f} s"
    )
    print(f"  {mine / cat:.2f} times cat; of it {len(done.kept)} files wait for their retention")


def drop_history(folder: Path, args: argparse.Namespace) -> None:
    spark = session()
    lake = folder / "history"
    for _ in range(args.versions):
        sync(lake, args.rows)
    table = table_of(lake)
    before = table.snapshot()
    content = state_content(spark, table, before)
    options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    started = time.perf_counter()
    done = vacuum_table(lambda: spark, table, options)
    took = time.perf_counter() - started
    after = table.snapshot()
    assert state_content(spark, table, after) == content
    rows = sum(block.rows for block in after.blocks)
    assert rows == content.rows == args.rows, (rows, content)
    print(
        f"drop history, {sum(b.rows for b in before.blocks):,} rows of {rows:,} keys: {took:.1f} s, "
        f"{done.rows_dropped:,} dropped, {sum(b.length for b in before.blocks) / 1e6:.0f} MB became "
        f"{sum(b.length for b in after.blocks) / 1e6:.0f} MB, proof of the states included"
    )


if __name__ == "__main__":
    main()
