"""Kept lines: what a dead-letter table holds, less what was replayed."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from singerlake.errors import NotFoundError, UsageError
from singerlake.format import refused_lines
from singerlake.format.log import Entry, Operation
from singerlake.format.names import REJECTED, TableName
from singerlake.lake import Table
from singerlake.log import log
from singerlake.log.table_state import TableState
from singerlake.ops.rejected.reasons import without_values
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.blocks.positions import block_holding
from singerlake.rows.lines.line_writer import lines_by_position
from singerlake.snapshot.from_blocks import local_rows


class _Row(msgspec.Struct):
    digest: str
    reason: str
    line: int | None = None
    file: str | None = None
    stream: str | None = None
    message: str | None = None
    message_base64: str | None = None


class _Line(msgspec.Struct):
    record: _Row
    time_extracted: str | None = None


_LINE = msgspec.json.Decoder(_Line)


@dataclass(frozen=True)
class KeptLine:
    """A rejected line.

    Attributes:
        digest: SHA-256 of its record, or of the whole line, as 64 hexadecimal digits.
        line: Its number in the input of the run, or in the file of a BATCH.
        file: That file; None if it is a line of the input.
        stream: The stream that it names, if it names one.
        reason: Why it was rejected, with the value.
        text: The line as the tap sent it, without its newline; of a BATCH file, the record alone.
        time: When it was rejected last, as ISO 8601.
        block: The block of the dead-letter table that holds it.
    """

    digest: str
    line: int | None
    file: str | None
    stream: str | None
    reason: str
    text: bytes
    time: str
    block: int

    @cached_property
    def kind(self) -> str:
        """The reason without values of the record, so that equal reasons are one."""
        return without_values(self.reason, self.text)

    def row(self, reason: str) -> bytes:
        """Build its record in the dead-letter table, with another reason."""
        try:
            text: str | None = self.text.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        encoded = None if text is not None else base64.b64encode(self.text).decode("ascii")
        return msgspec.json.encode(
            _Row(self.digest, reason, self.line, self.file, self.stream, text, encoded)
        )


@dataclass(frozen=True)
class ReasonCount:
    """The lines that were rejected for one reason.

    Attributes:
        reason: With ``…`` in the place of values.
        first: When the earliest of them was rejected, as ISO 8601.
        last: When the latest was.
    """

    reason: str
    lines: int
    first: str
    last: str


def dead_letters(name: TableName) -> TableName:
    """Return the dead-letter table of a table."""
    return TableName(name.tap, name.stream + REJECTED)


def holds_rejected(state: TableState) -> bool:
    """Tell whether a table is a dead-letter table, and not a stream of that name."""
    return refused_lines.are_in(state.tap_schema)


def state_of(table: Table) -> TableState:
    """Return the state of a dead-letter table.

    Raises:
        NotFoundError: No record of the stream was rejected.
        UsageError: The table has rows of its own.
    """
    try:
        state = table.snapshot()
    except NotFoundError as error:
        of = table.name.stream.removesuffix(REJECTED)
        stream = f"{table.name.tap}.{of}" if of else f"the tap {table.name.tap}"
        raise NotFoundError(
            f"no records of {stream} were rejected: the lake has no table {table.name}"
        ) from error
    if not holds_rejected(state):
        raise UsageError(
            f"{state.table} does not hold rejected records: a stream of the tap has that name"
        )
    return state


def kept_lines(table: Table, state: TableState) -> Iterator[KeptLine]:
    """Read the rejected lines of a dead-letter table, in the order in which they came."""
    wanted: dict[int, set[tuple[int, int]]] = defaultdict(set)
    blocks = state.blocks
    for batch in local_rows(table, state):
        places = (batch.column(name).to_pylist() for name in (BLOCK, ORDINAL))
        for place in zip(*places, strict=True):
            wanted[block_holding(blocks, place[0]).number].add(place)
    for block in blocks:
        places_here = wanted.get(block.number)
        if not places_here:
            continue
        lines = lines_by_position(table.read_block(block), block)
        for place in sorted(places_here):
            yield _kept(lines[place], place[0])


def _kept(line: bytes, block: int) -> KeptLine:
    found = _LINE.decode(line)
    row = found.record
    text = (
        base64.b64decode(row.message_base64 or "")
        if row.message is None
        else row.message.encode("utf-8")
    )
    return KeptLine(
        row.digest,
        row.line,
        row.file,
        row.stream,
        row.reason,
        text,
        found.time_extracted or "",
        block,
    )


# What was replayed: the log of the table itself says it.


@dataclass(frozen=True)
class ReplayedLines:
    """Digests of lines that one transaction replayed.

    Attributes:
        last_block: The last block of the dead-letter table that the transaction knew. A line that
            was rejected again later is in a block of its own.
        transaction: The last transaction of the dead-letter table that it knew.
        chain: The chain id of that one, by which the dead-letter table is recognised.
    """

    digests: frozenset[bytes]
    last_block: int
    transaction: int
    chain: str

    def has(self, line: KeptLine) -> bool:
        """Tell whether a line is one of them."""
        return line.block <= self.last_block and digest_bytes(line) in self.digests


def digest_bytes(line: KeptLine) -> bytes:
    """Return a line's digest; empty if the dead-letter table has something else there."""
    try:
        return bytes.fromhex(line.digest)
    except ValueError:
        return b""


def as_metadata(rejected: TableState, lines: Sequence[KeptLine]) -> dict[str, object]:
    """Say in the metadata of a transaction which lines it replays, and where they come from."""
    digests = b"".join(sorted(map(digest_bytes, lines)))
    return {
        "table": str(rejected.table),
        "transaction": rejected.number,
        "last_block": rejected.last_block,
        "chain": rejected.chain,
        "digests": base64.b64encode(digests).decode("ascii"),
    }


def replayed_lines(table: Table, head: TableState, rejected: TableState) -> list[ReplayedLines]:
    """Read from a table's log which lines of a dead-letter table it has replayed.

    What counts was replayed from this very dead-letter table, and not undone since. A copy of the
    table may have another one, whose blocks have the same numbers. When in doubt, a replay does not
    count: a record that is listed needlessly can be replayed again, and one that is hidden is lost.

    Args:
        head: The table's head.
        rejected: The dead-letter table, as it is or was since.

    Raises:
        DamagedError: An entry is lost or damaged.
    """
    own = [one for one in head.transactions if one.number >= head.first]
    wanted = [one.number for one in own if one.operation == Operation.REPLAY]
    if not wanted or not rejected.from_log:
        return []
    turns = (one.number for one in own if one.operation == Operation.REVERT)
    undone = _undone(table, head, [number for number in turns if number > wanted[0]])
    numbers = [number for number in wanted if number not in undone]
    return _of_this(table, head, rejected, numbers)


def settlements(table: Table, head: TableState, numbers: Iterable[int]) -> list[int]:
    """Find what took replayed records off the list, so that undoing it lists them again.

    Args:
        head: The table's head.
        numbers: Transactions of the table.

    Returns:
        Transactions of its dead-letter table.
    """
    replays = [one for one in numbers if head.summary(one).operation == Operation.REPLAY]
    rejected = Table(table.store, dead_letters(head.table))
    try:
        state = rejected.snapshot() if replays else None
    except NotFoundError:
        state = None
    if state is None or not state.from_log:
        return []
    own = [one.number for one in state.transactions if one.operation == Operation.REPLAY]
    settled = [
        entry.number
        for entry in log.sound_entries(table.store, rejected.name, own)
        if "replayed" in entry.metadata
    ]
    found = set[int]()
    for replay in _of_this(table, head, state, replays):
        # A process may die before it: then that of the next replay takes all off.
        found.update([one for one in settled if one > replay.transaction][:1])
    return sorted(found)


def _of_this(
    table: Table, head: TableState, rejected: TableState, numbers: Iterable[int]
) -> list[ReplayedLines]:
    """Read what replays took from this very dead-letter table."""
    entries = log.sound_entries(table.store, head.table, numbers)
    known = [one for one in (_replayed(entry, rejected) for entry in entries) if one is not None]
    places = sorted({one.transaction for one in known})
    there = log.sound_entries(table.store, rejected.table, places)
    chains = {entry.number: entry.chain for entry in there}
    return [one for one in known if chains[one.transaction] == one.chain]


def _undone(table: Table, head: TableState, reverts: Sequence[int]) -> set[int]:
    """Find the transactions that reverts took back, and no later revert brought back."""
    undone = set[int]()
    for entry in reversed([*log.sound_entries(table.store, head.table, reverts)]):
        if entry.number in undone:
            continue
        to, numbers = entry.metadata.get("reverted_to"), entry.metadata.get("undone")
        if isinstance(to, int):
            undone.update(range(to + 1, entry.number))
        elif isinstance(numbers, list):
            undone.update(numbers)
        else:  # a rebuild restored it without what it said
            undone.update(range(1, entry.number))
    return undone


def _replayed(entry: Entry, rejected: TableState) -> ReplayedLines | None:
    said = entry.metadata.get("rejected")
    if not isinstance(said, Mapping) or said.get("table") != str(rejected.table):
        return None
    try:
        digests = base64.b64decode(said.get("digests") or "")
        last, number = int(said.get("last_block") or 0), int(said.get("transaction") or 0)
    except (TypeError, ValueError):
        return None
    chain = said.get("chain")
    if not chain or not 0 < number <= rejected.number:
        return None
    parts = (digests[at : at + 32] for at in range(0, len(digests), 32))
    return ReplayedLines(frozenset(parts), last, number, str(chain))


def not_replayed(
    lines: Iterable[KeptLine], replayed: Sequence[ReplayedLines]
) -> Iterator[KeptLine]:
    """Yield the lines that are rejected still, also where the dead-letter table has others yet."""
    return (line for line in lines if not any(one.has(line) for one in replayed))


def counted(lines: Iterable[KeptLine]) -> list[ReasonCount]:
    """Count lines by reason, the most frequent first."""
    counts: Counter[str] = Counter()
    times: dict[str, tuple[str, str]] = {}
    for line in lines:
        counts[line.kind] += 1
        first, last = times.get(line.kind, (line.time, line.time))
        times[line.kind] = (min(first, line.time), max(last, line.time))
    return [ReasonCount(kind, n, *times[kind]) for kind, n in counts.most_common()]


# Which lines are meant, and how they are shown.


def meant_by(reason: str | None) -> Callable[[KeptLine], bool]:
    """Return what tells whether a line was rejected for a reason.

    Args:
        reason: The reason, with or without values; a part of it; or a pattern for all of it with
            ``*`` and ``?``. None means every line.
    """
    if reason is None:
        return lambda _line: True
    parts = (re.escape(one) for one in re.split(r"([*?])", reason))
    wild = "*" in reason or "?" in reason
    joined = "".join({r"\*": ".*", r"\?": "."}.get(part, part) for part in parts)
    whole = re.compile(joined, re.S)

    def meant(line: KeptLine) -> bool:
        return any(
            reason in said or (wild and whole.fullmatch(said) is not None)
            for said in (line.kind, line.reason)
        )

    return meant


def hidden(text: bytes) -> str:
    """Show what a line consists of: its members, with the JSON types of their values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return f"{len(text):,} bytes that are not JSON"
    if isinstance(value, dict) and isinstance(value.get("record"), dict):
        value = value["record"]
    if not isinstance(value, dict):
        return _kind(value)
    return "{" + ", ".join(f"{json.dumps(name)}: {_kind(one)}" for name, one in value.items()) + "}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")
