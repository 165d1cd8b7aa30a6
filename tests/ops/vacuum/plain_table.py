"""A table read by gzip and json alone, and its states folded in plain Python: the yardstick."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from singerlake.engine.local import LocalEngine
from singerlake.format import times
from singerlake.format.log import Block
from singerlake.format.version_notes import ErasedVersion, Erasure
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops import freeze as freezing
from singerlake.ops.erase import plan as erasing
from singerlake.ops.erase.lines import ErasedLines, by_block
from singerlake.ops.erase.writing import WRITTEN, Eraser
from singerlake.ops.erase.writing import encode as encode_erased
from singerlake.ops.vacuum import drop_history
from singerlake.ops.vacuum.expire import Rewriter, encode
from singerlake.rows.blocks.block_tasks import SENT
from singerlake.rows.blocks.positions import code
from singerlake.rows.state import activations

DELETED = "_sdc_deleted_at"


class Event(NamedTuple):
    """A RECORD (kind 1) or an ACTIVATE_VERSION (kind 0, before the row of its place)."""

    block: int
    place: int
    kind: int
    version: int | None
    record: dict[str, Any]

    @property
    def position(self) -> tuple[int, int]:
        return self.block, self.place


def events(table: Table, snapshot: TableState) -> list[Event]:
    """Every message of every block there is, by where it came first."""
    found: list[Event] = []
    for block in snapshot.blocks:
        data = table.store.get_range(table.name.data(block.file), block.offset, block.length)
        found += events_of(gzip.decompress(data), block)
    return sorted(found, key=lambda e: e[:3])


def events_of(text: bytes, block: Block) -> Iterator[Event]:
    rows = activations = 0
    for line in text.splitlines()[1:]:
        message = json.loads(line)
        if message["type"] == "ACTIVATE_VERSION":
            place = block.activations[activations][0]
            activations += 1
            yield Event(block.number, place, 0, message["version"], {})
            continue
        at = (block.number, rows)
        if block.first_version:
            at = (message["row_version"], message["row_ordinal"])
        yield Event(*at, 1, message.get("version"), message["record"])
        rows += 1
    assert (rows, activations) == (block.rows, len(block.activations))


def keys_at(snapshot: TableState, number: int) -> list[str]:
    return snapshot.schemas[snapshot.transactions[number - 1].schema_hash].key_properties


def until(all_events: Iterable[Event], snapshot: TableState, number: int) -> list[Event]:
    last = snapshot.transactions[number - 1].last_block
    return [event for event in all_events if event.block <= last]


def state(some: Iterable[Event], keys: Sequence[str]) -> list[Event]:
    """The rows after all of these messages."""
    rows: list[Event] = []
    for event in some:
        if event.kind == 0:
            rows = [row for row in rows if row.version == event.version]
            continue
        if keys:
            key = [event.record.get(name) for name in keys]
            rows = [row for row in rows if [row.record.get(name) for name in keys] != key]
        if event.record.get(DELETED) is None:
            rows.append(event)
    return rows


def newest(some: Iterable[Event], keys: Sequence[str]) -> set[tuple[int, int]]:
    """The last RECORD of each key, whatever it says; of keyless rows all that are left."""
    if not keys:
        rows: list[Event] = []
        for event in some:
            if event.kind == 0:
                rows = [row for row in rows if row.version == event.version]
            else:
                rows.append(event)
        return {row.position for row in rows}
    last = {tuple(e.record.get(k) for k in keys): e.position for e in some if e.kind}
    return set(last.values())


def states(table: Table, snapshot: TableState) -> dict[int, list[Event]]:
    """Every state that is promised."""
    everything = events(table, snapshot)
    return {
        number: state(until(everything, snapshot, number), keys_at(snapshot, number))
        for number in promised(snapshot, snapshot.floor)
    }


def promised(snapshot: TableState, floor: int) -> list[int]:
    """By the floor, by a version (or one deleted since), or by having the rows of one of these."""
    ends = [t.last_block for t in snapshot.transactions]
    kept = {ends[v.transaction - 1] for v in snapshot.frozen}
    for version in snapshot.deleted_versions:
        if version.deleted is not None and version.deleted.transaction > floor:
            kept.add(ends[version.transaction - 1])
    if floor:
        kept.add(ends[floor - 1])
    return [
        number
        for number in range(1, snapshot.number + 1)
        if number >= floor or ends[number - 1] in kept
    ]


def freeze(table: Table, at: int) -> None:
    """A version, without looking at its rows."""
    head = table.snapshot()
    wanted = freezing.plan(head, at=at)
    freezing.commit_version(table.store, head, wanted, rows=0, fingerprint="0" * 32)


def cutoff_at(snapshot: TableState, floor: int) -> float:
    """The time at which a transaction was the last one."""
    instant = times.parse(snapshot.transactions[floor - 1].time)
    assert instant is not None
    return instant.timestamp()


def bounds(
    table: Table, snapshot: TableState, plan: drop_history.DropHistoryPlan
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Positions that some state needs, and positions that may stay.

    May stay besides: what deletes a key, and what hides an older row behind an activation.
    """
    everything = events(table, snapshot)
    least: set[tuple[int, int]] = set()
    most: set[tuple[int, int]] = set()
    for number in promised(snapshot, plan.floor):
        some, keys = until(everything, snapshot, number), keys_at(snapshot, number)
        least |= {row.position for row in state(some, keys)}
        most |= newest(some, keys)
    looked_at = {block.number for block in plan.blocks}
    numbers = sorted(block.number for block in snapshot.blocks)

    def mine(positions: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {p for p in positions if next(n for n in numbers if n >= p[0]) in looked_at}

    assert least <= most
    return mine(least), mine(most)


def drop(
    table: Table, snapshot: TableState, plan: drop_history.DropHistoryPlan
) -> set[tuple[int, int]]:
    """Do what a plan says without Spark, with positions found here; returns those kept."""
    least, most = bounds(table, snapshot, plan)
    numbers = sorted(block.number for block in snapshot.blocks)
    kept: set[tuple[int, int]] = set()
    rewrites: list[drop_history.Rewrite] = []
    gone: list[Block] = []
    for interval in plan.intervals:
        rule = activations.survival(snapshot.at(interval.end).blocks).different
        decided = (rule.block, rule.rows) if rule is not None else (0, 0)
        inside = {block.number for block in interval.blocks}
        mine = {p for p in most if next(n for n in numbers if n >= p[0]) in inside}
        mine = {p for p in mine if p >= decided or p in least}
        kept |= mine
        counts: dict[int, int] = {}
        for position in mine:
            number = next(n for n in numbers if n >= position[0])
            counts[number] = counts.get(number, 0) + 1
        some, none = drop_history.plan_rewrites(interval, counts, decided)
        rewrites += some
        gone += none
    assert least <= kept
    written = []
    if rewrites:
        task_of = {b.number: n for n, r in enumerate(rewrites) for b in r.sources}
        marks = {n: encode([rewrite]) for n, rewrite in enumerate(rewrites)}
        rows = [
            {"task": task_of[number], "picked": np.int64(code(*position)).tobytes()}
            for position in kept
            if (number := next(n for n in numbers if n >= position[0])) in task_of
        ]
        rows += [{"task": n, SENT: work} for n, work in marks.items()]
        types = {"task": pa.int32(), "picked": pa.binary(), SENT: pa.binary()}
        batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(types))
        writer = Rewriter(table.store, table.name, 1 << 20)
        described = {
            number: msgspec.json.decode(data, type=Block)
            for out in writer(iter([batch]))
            for number, data in zip(*(c.to_pylist() for c in out.columns), strict=True)
        }
        written = [(rewrite, described[rewrite.number]) for rewrite in rewrites]
    entry = drop_history.draft_drop_history(snapshot, plan, written, gone)
    drop_history.commit_drop_history(table.store, snapshot, plan, entry, writer_id="test")
    return kept


def erase(table: Table, positions: set[tuple[int, int]], erased: Sequence[ErasedVersion]) -> None:
    """Erase lines by their positions, in this process."""
    head, engine = table.snapshot(), LocalEngine()
    numbers = np.array([block.number for block in head.blocks])
    codes = np.array([code(*position) for position in positions])
    lines = ErasedLines.of(by_block(codes, numbers).to_pylist())
    plan = erasing.ErasePlan(head, 1, lines.count, erasing.plan_files(head, lines.packed, {}))
    tasks = engine.source([encode_erased(file, lines) for file in plan.files])
    eraser = Eraser(table.store, table.name, 1 << 20)
    described = engine.collect(engine.map(tasks, eraser, WRITTEN))
    written = [msgspec.json.decode(row["block"], type=Block) for row in described]
    why = Erasure("request 4711", "ada", plan.keys, plan.lines)
    announced = erasing.announce(table.store, plan, why, writer_id="test", check=lambda: None)
    erasing.commit_erase(
        table.store,
        head,
        announced,
        erasing.draft_erase(head, why, written, [*erased]),
        writer_id="test",
        check=lambda: None,
        still_none=lambda _: None,
    )
