"""A pipeline as Meltano runs it: read the bookmark, let the tap send what came since, write it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singerlake.lake import Lake
from singerlake.ops.bookmark import Answer, get_bookmark, parse_bookmark, set_bookmark
from singerlake.storage.base import Store
from tests.faults import plain
from tests.target.harness import TAP, record, schema, state

ID = f"dev:{TAP}-to-target-singerlake"
STREAMS = ("a", "b")
COLUMNS = {"id": {"type": "integer"}}


@dataclass
class Source:
    """Streams that grow, and a tap whose STATE counts what it has sent of each."""

    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))

    def grow(self, stream: str, count: int = 1) -> None:
        self.rows[stream] += count

    def sent(self, since: Any, streams: tuple[str, ...] = STREAMS) -> tuple[list[bytes], Any]:
        """What the tap sends after a STATE, and the STATE that comes behind it."""
        before = (since or {}).get("bookmarks", {})
        lines, after = [], dict(before)
        for stream in streams:
            new = range(before.get(stream, 0) + 1, self.rows[stream] + 1)
            if new:
                lines.append(schema(stream, COLUMNS, ["id"]))
                lines += [record(stream, {"id": number}) for number in new]
            after[stream] = self.rows[stream]
        value = {"bookmarks": after}
        return [*lines, state(value)], value


def state_of(answer: Answer) -> Any:
    """The STATE with which the tap begins, as Meltano merges it."""
    if answer.completed is None or answer.partial is None:
        return None
    merged = dict((json.loads(answer.completed) or {}).get("singer_state", {}).get("bookmarks", {}))
    merged |= (json.loads(answer.partial) or {}).get("singer_state", {}).get("bookmarks", {})
    return {"bookmarks": merged}


def read(store: Store, state_id: str = ID) -> Any:
    """The STATE of a pipeline's bookmark."""
    return state_of(get_bookmark(Lake(store), state_id))


def write(store: Store, value: Any, seen: Any = None, state_id: str = ID, **partial: Any) -> None:
    """Write a pipeline's bookmark."""
    given = {"completed": {"singer_state": value}, "partial": partial, "seen": seen}
    set_bookmark(Lake(store), state_id, parse_bookmark(json.dumps(given).encode()))


def ids(lake: Path, stream: str) -> list[int]:
    """The keys of the rows that are there, as an independent reader sees them."""
    table = plain.tables(plain.dump_folder(lake)).get(f"{TAP}.{stream}")
    return sorted(row["id"] for row in table.state()) if table else []


def is_behind(value: Any, rows: dict[str, list[int]]) -> bool:
    """Whether every row that a STATE counts as sent is there."""
    counts = (value or {}).get("bookmarks", {})
    return all(set(range(1, count + 1)) <= set(rows[name]) for name, count in counts.items())


def steps(lake: Path, source: Source, store: Store, split: bool) -> Iterator[str]:
    """One run, step by step; of its two commits the first takes one stream only."""
    from tests.target.harness import run

    answer = get_bookmark(Lake(store), ID)
    at = state_of(answer)
    yield "read"
    for streams in (STREAMS[:1], STREAMS) if split else (STREAMS,):
        lines, after = source.sent(at, streams)
        emitted = run(lake, lines)
        yield "committed"
        for value in emitted:
            write(store, value, answer.seen)
        at = after
        yield "wrote"
