"""Many small transactions beside delta-rs and pyiceberg, and a table of very many blocks.

All tables get the same one-row transactions, one table after the other: commits of two in turn
would make the one that waits for the disk wait for what the other left in the cache. A cost
"around" the nth commit is that of up to a hundred commits about it, or before it at the end, of
all rounds; rounds but the last end at a thousand commits.
"""

from __future__ import annotations

import functools
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench import harness
from singerlake import FORMAT
from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.log import Block, Entry, SchemaEntry, seal_entry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import appending
from singerlake.log.folding import fold
from singerlake.log.log import TableLog
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState

COMMITS = 10_000
PEER_COMMITS = 1_000
PEER_SECONDS = 60.0
"""A peer ends at whichever of the two comes first."""
MARKS = (10, 100, 1_000, 10_000)
AROUND = 50
BLOCKS = 200_000
TAIL = 255
"""Log entries behind a manifest, at most: what has to be read one by one."""

NAME = TableName("tap-bench", "orders")
SCHEMA = SchemaEntry(
    {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}},
    ["id"],
)
HASH = schema_hash(SCHEMA.schema, SCHEMA.key_properties)
SCHEMA_LINE = (
    json.dumps(
        {
            "type": "SCHEMA",
            "stream": NAME.stream,
            "schema": SCHEMA.schema,
            "key_properties": SCHEMA.key_properties,
        }
    ).encode()
    + b"\n"
)

OURS = "Singerlake, one writer"
FRESH = "Singerlake, opened for each commit"


def run(folder: Path, rows: int, rounds: int) -> str:
    count = min(rows, COMMITS)
    costs = commits(folder, count, rounds)
    lines = [harness.machine("singerlake", "deltalake", "pyiceberg"), ""]
    lines += [f"{count:,} transactions of one row; milliseconds, median (mean) around the nth:", ""]
    lines += [commits_table(costs), ""]
    lines += [stopped(costs, count), ""]
    last = max(mark for mark in MARKS if mark <= count)
    for name, most in ((OURS, 1.5), (FRESH, 5)):
        ratio = median(costs[name], last) / median(costs[name], 10)
        met = "met" if ratio <= most else "missed"
        lines.append(
            f"- {name}: the {last:,}th takes {ratio:.2f}× the time of the 10th, the goal is {most}: "
            f"{met}."
        )
    blocks = min(rows, BLOCKS)
    cases = {
        f"20 transactions of {blocks // 20:,} blocks": few_large(folder / "large", blocks // 20),
        f"{blocks:,} transactions of one block": many_small(folder / "small", blocks),
        f"{5 * blocks:,} transactions of one block": many_small(folder / "huge", 5 * blocks),
    }
    lines += ["", opening(cases, rounds)]
    return "\n".join(lines)


# --- commits


def commits(folder: Path, count: int, rounds: int) -> dict[str, list[list[float]]]:
    """Seconds of each commit, by case and round."""
    cases: dict[str, Callable[[Path], Case]] = {
        OURS: functools.partial(ours, fresh=False),
        FRESH: functools.partial(ours, fresh=True),
        "delta-rs, by path": functools.partial(delta, checkpoint_every=0),
        "delta-rs, create_checkpoint each 10": functools.partial(delta, checkpoint_every=10),
        "pyiceberg, SQLite catalog": iceberg,
    }
    costs: dict[str, list[list[float]]] = {name: [] for name in cases}
    for turn, (name, case) in itertools.product(range(rounds), cases.items()):
        root = harness.fresh(folder / "table")
        commit, rows = case(root)
        whole = name in {OURS, FRESH} and turn == rounds - 1
        spent: list[float] = []
        for n in range(count if whole else min(count, PEER_COMMITS)):
            if name not in {OURS, FRESH} and sum(spent) > PEER_SECONDS:
                break
            began = time.perf_counter()
            commit(n)
            spent.append(time.perf_counter() - began)
        assert rows() == len(spent), (name, rows(), len(spent))
        print(f"  {turn + 1}/{rounds} {name}: {len(spent)} in {sum(spent):.1f} s", file=sys.stderr)
        costs[name].append(spent)
    return costs


Commit = Callable[[int], object]
Rows = Callable[[], int]
Case = tuple[Commit, Rows]


def block_of(n: int) -> tuple[bytes, Block]:
    """A block with one row."""
    now = times.now()
    stamp = times.iso(now)
    record = {"type": "RECORD", "stream": NAME.stream, "record": {"id": n, "name": f"row {n}"}}
    text = SCHEMA_LINE + json.dumps({**record, "time_extracted": stamp}).encode() + b"\n"
    data = format_block.encode(text, 1, times.micros(now))
    return data, Block(0, "", 0, len(data), 1, len(text), stamp, stamp)


def staged_rows(lake: Lake, numbers: Iterator[int], name: TableName = NAME) -> StagedTable:
    """What the target would have staged: a block for each row here."""
    staged = StagedTable(lake.store, name)
    staged.set_schema(HASH, SCHEMA)
    for n in numbers:
        staged.add(HASH, *block_of(n))
    return staged


def ours(root: Path, *, fresh: bool) -> Case:
    lake = Lake.open(str(root), create=True)
    writer = lake.table(NAME).writer()

    def commit(n: int) -> None:
        if fresh:
            anew = Lake.open(str(root), create=True)
            anew.table(NAME).writer().commit(staged_rows(anew, iter([n])))
        else:
            writer.commit(staged_rows(lake, iter([n])))

    def rows() -> int:
        table = lake.table(NAME)
        snapshot = table.snapshot()
        for block in snapshot.blocks[:: max(1, len(snapshot.blocks) // 100)]:
            assert f'"row {block.number - 1}"'.encode() in table.read_block(block)
        return sum(block.rows for block in snapshot.blocks)

    return commit, rows


def delta(root: Path, *, checkpoint_every: int) -> Case:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    def commit(n: int) -> None:
        write_deltalake(root, pa.table({"id": [n], "name": [f"row {n}"]}), mode="append")
        if checkpoint_every and (n + 1) % checkpoint_every == 0:
            DeltaTable(root).create_checkpoint()

    return commit, lambda: DeltaTable(root).to_pyarrow_table().num_rows


def iceberg(root: Path) -> Case:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    root.mkdir(parents=True)
    catalogue = SqlCatalog(
        "bench", uri=f"sqlite:///{root}/catalogue.db", warehouse=f"file://{root}"
    )
    catalogue.create_namespace("bench")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = catalogue.create_table("bench.orders", schema)

    def commit(n: int) -> None:
        table.append(pa.table({"id": [n], "name": [f"row {n}"]}, schema))

    return commit, lambda: int(catalogue.load_table("bench.orders").scan().to_arrow().num_rows)


def around(costs: list[list[float]], mark: int) -> list[float]:
    spread = min(AROUND, mark // 2)
    return [
        cost
        for spent in costs
        if len(spent) >= mark
        for cost in spent[mark - spread - 1 : mark + spread]
    ]


def median(costs: list[list[float]], mark: int) -> float:
    return statistics.median(around(costs, mark))


def commits_table(costs: dict[str, list[list[float]]]) -> str:
    rows = []
    for name, spent in costs.items():
        row = [name]
        marks = [mark for mark in MARKS if around(spent, mark)]
        for mark in MARKS:
            seconds = around(spent, mark)
            if not seconds:
                row.append("")
                continue
            both = statistics.median(seconds), statistics.mean(seconds)
            row.append("{} ({})".format(*(harness.number(1e3 * one) for one in both)))
        ratio = median(spent, marks[-1]) / median(spent, marks[0])
        rows.append([*row, f"{ratio:.2f}× at {marks[-1]:,}"])
    return harness.table(["", *(f"{mark:,}th" for mark in MARKS), "to the 10th"], rows)


def stopped(costs: dict[str, list[list[float]]], count: int) -> str:
    ended = {name: max(map(len, spent)) for name, spent in costs.items()}
    early = ", ".join(f"{name} after {n:,}" for name, n in ended.items() if n < count)
    return (
        "Each table has as many rows as it had commits. Singerlake waits four times in a commit "
        "until the disk has it (fsync); delta-rs never does."
        + (f" Stopped at {PEER_COMMITS:,} commits or {PEER_SECONDS:g} s: {early}." if early else "")
    )


# --- very many blocks

OPEN = """
import json, sys, time
began = time.perf_counter()
from pathlib import Path
from singerlake.lake import Lake
from singerlake.format.names import TableName
from singerlake.rows.state import activations
from singerlake.rows.blocks import block_tasks as block_tasks
from tap_singerlake.plan import Plan
imported, used = time.perf_counter(), time.process_time()
table = Lake.open(sys.argv[1]).table(TableName(sys.argv[2], sys.argv[3]))
snapshot = table.snapshot()
opened = time.perf_counter()
steps = sum(1 for _ in Plan(snapshot, 0).steps())
tap = time.perf_counter()
blocks = activations.needed(snapshot.blocks, activations.survival(snapshot.blocks))
tasks = block_tasks.split(blocks, 4, 256 << 20)
spark = time.perf_counter()
before = snapshot.at(snapshot.number // 2)
old, used = time.perf_counter(), time.process_time() - used
print(json.dumps({
    "import": imported - began, "open": opened - imported, "tap": tap - opened,
    "spark": spark - tap, "at": old - spark, "blocks": len(blocks), "steps": steps,
    "processor": used, "head": snapshot.number, "planned": sum(map(len, tasks)),
    # Not what getrusage says: that counts what started this process as well.
    "peak": int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10,
}))
"""
PHASES = {
    "open": "open (manifest, log behind it)",
    "tap": "plan of the tap",
    "spark": "plan of a Spark state",
    "at": "an old transaction",
}


def opening(cases: dict[str, tuple[Path, tuple[int, int]]], rounds: int) -> str:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for _, (name, (root, expected)) in itertools.product(range(rounds), cases.items()):
        one = opened(root)
        assert (one["blocks"], one["planned"], one["head"], one["steps"]) == (
            expected[0],
            expected[0],
            expected[1],
            expected[1],
        )
        found[name].append(one)
    rows, goals = [], []
    for name, runs in found.items():
        middle = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        whole = [sum(one[phase] for phase in PHASES) for one in runs]
        rows.append(
            [
                name,
                harness.number(middle["start"]),
                *(harness.number(middle[phase]) for phase in PHASES),
                f"{harness.number(statistics.median(whole))} "
                f"({harness.number(min(whole))}–{harness.number(max(whole))})",
                harness.number(min(one["processor"] for one in runs)),
                f"{middle['peak'] / 2**20:,.0f}",
                harness.number(1e3 * appended(cases[name][0])),
            ]
        )
        blocks = int(middle["blocks"])
        seconds, most = statistics.median(whole), max(1.0, blocks / BLOCKS)
        goals.append(
            f"- {name}: open and all plans in {harness.number(seconds)} s, the goal is "
            f"{most:g} s: {'met' if seconds <= most else 'missed'}."
        )
    heads = [
        "seconds",
        "start of Python, imports",
        *PHASES.values(),
        "all but start",
        "its CPU s",
    ]
    heads += ["peak MiB", "a commit, table reopened (CPU ms)"]
    return "\n".join(
        [
            "A table of very many blocks, each time in a new process:",
            "",
            harness.table(heads, rows),
            "",
            *goals,
        ]
    )


def appended(root: Path) -> float:
    """Seconds of processor that a commit takes which opens the lake anew; the median of ten."""
    spent = []
    for number in range(10):
        began = time.process_time()
        lake = Lake.open(str(root))
        lake.table(NAME).writer().commit(staged_rows(lake, iter([number])))
        spent.append(time.process_time() - began)
    return statistics.median(spent)


def opened(root: Path) -> dict[str, float]:
    out = root.with_suffix(".json")
    cost = harness.command([sys.executable, "-c", OPEN, root, NAME.tap, NAME.stream], stdout=out)
    found: dict[str, float] = json.loads(out.read_text())
    return {**found, "start": cost.seconds - sum(found[phase] for phase in PHASES)}


def few_large(root: Path, per: int) -> tuple[Path, tuple[int, int]]:
    """Real blocks, by the real writer."""
    lake = Lake.open(str(root), create=True)
    writer = lake.table(NAME).writer()
    for start in range(0, 20 * per, per):
        writer.commit(staged_rows(lake, iter(range(start, start + per))))
    return root, (20 * per, 20)


def many_small(root: Path, count: int) -> tuple[Path, tuple[int, int]]:
    """The log of as many small commits, folded; only its end lies beside the manifest.

    With real commits it would take half an hour; what is read is the same.
    """
    lake = Lake.open(str(root), create=True)
    _, block = block_of(0)

    def entry(number: int) -> Entry:
        file = f"{HASH}/orders-20260101T{number:012d}Z-20260101T{number:012d}Z.singer.gz"
        return Entry(
            format=FORMAT,
            number=number,
            commit=f"{number:032x}",
            operation="sync",
            stream=NAME.stream,
            time=block.first,
            writer="host-4711-28ded5af",
            software="singerlake",
            schema_hash=HASH,
            schemas={HASH: SCHEMA} if number == 1 else {},
            blocks=[Block(number, file, 0, block.length, 1, block.bytes, block.first, block.last)],
        )

    def chained() -> Iterator[Entry]:
        chain = ""
        for number in range(1, count + 1):
            written, _ = seal_entry(msgspec.structs.replace(entry(number), previous=chain))
            chain = written.chain
            yield written

    tail = min(TAIL, count - 1)
    entries = chained()
    snapshot = fold(TableState(NAME), itertools.islice(entries, count - tail))
    write_checkpoint(lake.store, snapshot)
    with appending(TableLog(lake.store, NAME)) as append:
        for written in entries:
            assert append(written)
    return root, (count, count)
