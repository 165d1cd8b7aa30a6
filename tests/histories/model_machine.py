"""A table in plain Python, and the real one beside it: every step is done to both.

Nothing here shares code with how the lake folds, freezes, reverts or fingerprints. The model
applies one message after another to a list; the lake's files are read with ``gzip`` and
``json`` alone; the downstream target knows only what a tap puts out.
"""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from msgspec import structs
from pyspark.sql import SparkSession

from singerlake.errors import ConflictError, NotFoundError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Lake
from singerlake.log import versions
from singerlake.log.folding import restored
from singerlake.ops.change.plan import Mode
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest, erase
from singerlake.ops.point import point
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.sign.sign import sign
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.overlay.alter import AlterOptions
from singerlake.sql.queries.query import query
from tests.faults.plain import PlainTable, is_time
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import on, vacuum_here, vacuum_on_spark
from tests.frozen import revert_on_spark as revert
from tests.frozen import undo_on_spark as undo
from tests.histories import here
from tests.ops.change.row_sets import change, row_set
from tests.sshsig import Key
from tests.tap.run import run as run_tap
from tests.target import harness

LADDER = ("integer", "number", "string")
"""Every value of one of these types can become one of the next."""
DELETED = "_sdc_deleted_at"
AT = "2026-01-01T00:00:00Z"
"""The time at which rows are deleted: nothing else deletes one."""
PROOFS = ("fingerprint", "record_fingerprint")
NEVER_USED = 10**18
"""Singer versions from here on are the model's own; no tap of a test uses them."""


class Column(NamedTuple):
    """A property of the schema."""

    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """What a SCHEMA message says."""

    columns: dict[str, Column]
    keys: tuple[str, ...]

    def line(self) -> bytes:
        properties = {
            name: {"type": ["null", column.type] if column.nullable else column.type}
            for name, column in self.columns.items()
        }
        return harness.schema("s", properties, list(self.keys))

    @classmethod
    def of(cls, schema: dict[str, Any], keys: list[str]) -> Schema:
        columns = {}
        for name, spec in schema["properties"].items():
            kinds = spec["type"] if isinstance(spec["type"], list) else [spec["type"]]
            (kind,) = [kind for kind in kinds if kind != "null"]
            columns[name] = Column(kind, "null" in kinds)
        return cls(columns, tuple(keys))


class Row(NamedTuple):
    """A RECORD message and the schema that it came under.

    Attributes:
        raw: The record as it is spelled; empty where it is as ``json.dumps`` has it.
    """

    record: dict[str, Any]
    version: int | None
    schema: Schema
    raw: str = ""

    @property
    def text(self) -> str:
        """The record's own bytes."""
        return self.raw or json.dumps(self.record)

    def values(self, schema: Schema) -> dict[str, Any]:
        """The columns of a later schema."""
        return {
            name: cast(self.record.get(name), self.schema.columns[name].type, column.type)
            for name, column in schema.columns.items()
            if name in self.schema.columns
        }


class Activate(NamedTuple):
    """An ACTIVATE_VERSION message and the schema that it came under."""

    version: int
    schema: Schema


class Gone(NamedTuple):
    """Where a RECORD was that has been erased: nobody reads it, and others keep their places."""

    schema: Schema


Event: TypeAlias = Row | Activate | Gone
Position: TypeAlias = tuple[int, int, int]
"""Block, rows before it there, and 0 for an activation, which comes before the next row."""
Message: TypeAlias = dict[str, Any] | tuple[dict[str, Any], int] | int
"""As in ``tests.build``: a record, one with its Singer version, or ACTIVATE_VERSION."""


def cast(value: Any, old: str, new: str) -> Any:
    """A value of one type as one of a type further up the ladder."""
    if value is None or old == "string":
        return value
    value = int(value) if old == "integer" else float(value)
    if new == "string":
        return number_text(value)
    return float(value) if new == "number" else value


def number_text(value: float) -> str:
    """Shortest digits, without exponent and needless zeros."""
    text = format(Decimal(repr(value)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def row_text(values: dict[str, Any]) -> str:
    """The canonical text of a row, as docs/internals/fingerprints.md has it."""
    members = (
        json.dumps(name, ensure_ascii=False)
        + ":"
        + (json.dumps(v, ensure_ascii=False) if isinstance(v, str) else number_text(v))
        for name, v in sorted(values.items())
        if v is not None
    )
    return "{" + ",".join(members) + "}"


def fingerprint(texts: Iterable[str]) -> str:
    """The content fingerprint, as docs/internals/fingerprints.md has it."""
    return set_hash(text.encode() for text in texts)


def record_fingerprint(rows: Iterable[Row]) -> str:
    """The fingerprint of the records, as docs/internals/fingerprints.md has it."""
    return set_hash(blake3(row.text.encode()).digest()[:20] for row in rows)


def in_order(records: Iterable[dict[str, Any]]) -> list[str]:
    """Records in an order of their own, to compare them as sets in which some may be twice."""
    return sorted(json.dumps(record, sort_keys=True) for record in records)


def set_hash(strings: Iterable[bytes]) -> str:
    """The hash of a set, number by number."""
    lanes = [0] * 1024
    for string in strings:
        numbers = struct.unpack("<1024H", blake3(string).digest(length=2048))
        lanes = [(lane + number) % 2**32 for lane, number in zip(lanes, numbers, strict=True)]
    return "lt1:" + blake3(struct.pack("<1024I", *lanes)).hexdigest()


def apply(rows: list[Row], event: Event, schema: Schema) -> list[Row]:
    """The rows after one more message."""
    if isinstance(event, Activate):
        return [row for row in rows if row.version == event.version]
    if isinstance(event, Gone):
        return rows
    if schema.keys:
        rows = [row for row in rows if key_of(row, schema) != key_of(event, schema)]
    return rows if is_time(event.record.get(DELETED)) else [*rows, event]


def key_of(row: Row, schema: Schema) -> tuple[Any, ...]:
    values = row.values(schema)
    return tuple(values.get(name) for name in schema.keys)


def fold(events: Iterable[Event], schema: Schema) -> list[Row]:
    """The rows after all messages, under a schema and its key."""
    rows: list[Row] = []
    for event in events:
        rows = apply(rows, event, schema)
    return rows


def newest(events: Iterable[Event], schema: Schema) -> list[Row]:
    """The last RECORD of each key."""
    rows = {key_of(event, schema): event for event in events if isinstance(event, Row)}
    return list(rows.values())


def texts_of(rows: Iterable[Row], schema: Schema) -> list[str]:
    """The rows of a state in a form that can be compared: in no order, none left out."""
    return sorted(row_text(row.values(schema)) for row in rows)


@dataclass
class Transaction:
    """What one transaction is in the model."""

    operation: str
    schema: Schema
    events: list[Event] = field(default_factory=list)


class Difference(NamedTuple):
    """What a revert has to write, and what it should say of it."""

    events: list[Event]
    put_back: int
    deleted: int | None
    unchanged: int


class Undone(NamedTuple):
    """What an undo has to write, what it should say of it, and the schema then in effect."""

    events: list[Event]
    put_back: int
    deleted: int
    conflicts: int
    schema: Schema


class Asked(NamedTuple):
    """What a change asks of a table with a key: cells by the rows' keys."""

    rows: dict[tuple[Any, ...], dict[str, Any]]
    deleted: tuple[tuple[Any, ...], ...] = ()
    all_rows: bool = False


class Change(NamedTuple):
    """What a change has to write; rows inserted, updated, deleted, unchanged and absent."""

    events: list[Event]
    counts: tuple[int, int, int, int, int]


@dataclass
class Model:
    """The table as it should be."""

    transactions: list[Transaction] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    pointers: dict[str, int] = field(default_factory=dict)
    floor: int = 0
    deleted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each deleted version, the transaction that it meant, and the one that deleted it."""

    def readable(self, at: int) -> bool:
        """Whether a state is still promised: by the floor, by a version, or by its rows."""
        if self.transactions[at - 1].operation == "drop":
            return False
        count = len(self.events(at))
        since = (of for of, by in self.deleted.values() if by > self.floor)
        kept = [self.floor, *self.versions.values(), *since] if self.floor else []
        return at >= self.floor or any(len(self.events(k)) == count for k in kept)

    def readables(self) -> list[int]:
        """Every transaction whose state is promised."""
        return [at for at in range(1, self.head + 1) if self.readable(at)]

    @property
    def head(self) -> int:
        return len(self.transactions)

    def schema(self, at: int) -> Schema:
        return self.transactions[at - 1].schema

    def events(self, at: int, after: int = 0) -> list[Event]:
        return [event for t in self.transactions[after:at] for event in t.events]

    def state(self, at: int) -> list[Row]:
        return fold(self.events(at), self.schema(at))

    def texts(self, at: int) -> list[str]:
        return texts_of(self.state(at), self.schema(at))

    def difference(self, to: int) -> Difference:
        """The messages that turn the present state into an older one."""
        schema = self.schema(to)
        old = self.state(to)
        since = self.events(self.head, after=to)
        if not schema.keys or not all(told_apart(event.schema, schema) for event in since):
            version = NEVER_USED + 2 * self.head
            both = [Activate(version - 1, schema), Activate(version, schema)]
            again = [row._replace(version=version) for row in old]
            return Difference([*both, *again], len(old), None, 0)
        now = {key_of(row, schema): row for row in fold(self.events(self.head), schema)}
        before = {key_of(row, schema): row for row in old}
        # Sent again under another schema: its hidden columns must not come back later.
        other = {key_of(row, schema) for row in newest(since, schema) if row.schema != schema}
        put_back: list[Event] = [
            row._replace()  # another row, in another place
            for key, row in before.items()
            if key not in now or key in other or now[key].text != row.text
        ]
        deleted: list[Event] = [
            row._replace(record={**row.record, DELETED: AT}, raw="")
            for key, row in now.items()
            if key not in before
        ]
        unchanged = len(old) - len(put_back)
        return Difference([*put_back, *deleted], len(put_back), len(deleted), unchanged)

    def can_be_undone(self, number: int) -> bool:
        """Whether a transaction brought something, and its rows can be told from all others."""
        if number < 1 or not self.changes(number):
            return False
        if not (self.readable(number) and (number == 1 or self.readable(number - 1))):
            return False
        since = self.events(self.head, after=number)
        if not self.schema(self.head).keys:
            return not any(isinstance(event, Activate) for event in since)
        # Values of a type that their column has no more do not come back.
        wanted = self.undone(number, OnConflict.UNDO)
        return not any(
            name in wanted.schema.columns
            and LADDER.index(column.type) > LADDER.index(wanted.schema.columns[name].type)
            for event in wanted.events
            for name, column in event.schema.columns.items()
        )

    def changes(self, number: int) -> bool:
        """Whether a transaction brought rows, or another schema."""
        one = self.transactions[number - 1]
        return bool(one.events) or (number > 1 and one.schema != self.schema(number - 1))

    def undone(self, number: int, mode: OnConflict) -> Undone:
        """The messages that take back what one transaction did."""
        schema = self.schema(self.head)
        later = range(number + 1, self.head + 1)
        if number > 1 and self.schema(number) == schema and not any(map(self.changes, later)):
            schema = self.schema(number - 1)
        if not schema.keys:
            return self._undone_by_place(number, schema)
        restores = schema != self.schema(self.head)
        alike = _same_row if restores else _same_record
        states = [self.state(n) if n else [] for n in (number - 1, number, self.head)]
        before, at, now = ({key_of(row, schema): row for row in rows} for rows in states)
        put_back: list[Event] = []
        deleted: list[Event] = []
        conflicts = 0
        for key in before | at:
            was, then, present = before.get(key), at.get(key), now.get(key)
            if alike(was, then):
                continue
            again = not _same_record(present, then) and not _same_record(present, was)
            conflicts += again
            if (again and mode is not OnConflict.UNDO) or alike(was, present):
                continue
            if was is not None:
                put_back.append(was._replace())
            elif present is not None:
                gone = {**present.record, DELETED: AT}
                deleted.append(present._replace(record=gone, raw=""))
        events = [*put_back, *deleted]
        return Undone(events, len(put_back), len(deleted), conflicts, schema)

    def _undone_by_place(self, number: int, schema: Schema) -> Undone:
        """The same without a key: all rows anew, but for those that came with it."""
        before = self.state(number - 1) if number > 1 else []
        now = self.state(self.head)
        since = {id(event) for event in self.events(self.head, after=number)}
        rows = [*before, *(row for row in now if id(row) in since)]
        there, shall = {id(row) for row in now}, {id(row) for row in rows}
        deleted, put_back = len(there - shall), len(shall - there)
        if not (deleted or put_back):
            return Undone([], 0, 0, 0, schema)
        version = NEVER_USED + 2 * self.head
        both = [Activate(version - 1, schema), Activate(version, schema)]
        again = [row._replace(version=version) for row in rows]
        return Undone([*both, *again], put_back, deleted, 0, schema)

    def changed(self, asked: Asked) -> Change:
        """The messages by which rows become what is asked of them."""
        schema = self.schema(self.head)
        present = {key_of(row, schema): row for row in self.state(self.head)}
        if asked.all_rows:
            gone = [key for key in present if key not in asked.rows]
        else:
            gone = [key for key in asked.deleted if key in present]
        inserted, updated, unchanged = [], [], 0
        for key, cells in asked.rows.items():
            if key not in present:
                named = dict(zip(schema.keys, key, strict=True))
                inserted.append(new_row({**named, **cells}, schema, self.active()))
            elif (row := patched(present[key], cells, schema)) is not None:
                updated.append(row)
            else:
                unchanged += 1
        deleted = [
            present[key]._replace(record={**present[key].record, DELETED: AT}, raw="")
            for key in gone
        ]
        absent = len(asked.deleted) - len(gone) if not asked.all_rows else 0
        counts = (len(inserted), len(updated), len(gone), unchanged, absent)
        return Change([*deleted, *updated, *inserted], counts)

    def changed_by_id(
        self, inserted: list[dict[str, Any]], by_id: list[tuple[Row, dict[str, Any] | None]]
    ) -> Change:
        """The messages of a change to a table without a key.

        Args:
            inserted: The cells of new rows.
            by_id: Rows, and the cells that they are to have; None for one that goes.
        """
        schema = self.schema(self.head)
        left = self.state(self.head)
        updated, deleted, unchanged = [], 0, 0
        for row, cells in by_id:
            other = None if cells is None else patched(row, cells, schema)
            if cells is not None and other is None:
                unchanged += 1
                continue
            del left[next(n for n, one in enumerate(left) if one is row)]
            deleted += cells is None
            updated += [other] if other is not None else []
        counts = (len(inserted), len(updated), deleted, unchanged, 0)
        if not updated and not deleted:
            return Change([new_row(cells, schema, self.active()) for cells in inserted], counts)
        version = NEVER_USED + 2 * self.head
        new = [new_row(cells, schema, version) for cells in inserted]
        again = [row._replace(version=version) for row in (*left, *updated)]
        both = [Activate(version - 1, schema), Activate(version, schema)]
        return Change([*both, *again, *new], counts)

    def active(self) -> int | None:
        """The Singer version that the last activation named."""
        events = reversed(self.events(self.head))
        return next((event.version for event in events if isinstance(event, Activate)), None)


def new_row(cells: dict[str, Any], schema: Schema, version: int | None) -> Row:
    """The row that a change inserts: its members in the schema's order, null where they may be."""
    record = {
        name: cells.get(name)
        for name, column in schema.columns.items()
        if column.nullable or cells.get(name) is not None
    }
    raw = ",".join(f"{json.dumps(name)}:{spelled(value)}" for name, value in record.items())
    return Row(record, version, schema, "{" + raw + "}")


def patched(row: Row, cells: dict[str, Any], schema: Schema) -> Row | None:
    """A row with other cells under the schema now in effect; None where it has them already."""
    now = row.values(schema)
    changed = {
        name: value
        for name, value in cells.items()
        if name not in schema.keys and value != now.get(name)
    }
    if not changed:
        return None
    members: dict[str, str | None] = {}
    for name, column in schema.columns.items():
        if name in changed:
            there = changed[name] is not None or column.nullable
            members[name] = spelled(changed[name]) if there else None
        elif name not in row.schema.columns:
            if name in row.record:  # what nobody could see stays unseen
                members[name] = "null" if column.nullable else None
        elif row.schema.columns[name].type != column.type and now[name] is not None:
            members[name] = spelled(now[name])
    raw = spliced(row.text, members)
    return Row(json.loads(raw), row.version, schema, raw)


def spelled(value: Any) -> str:
    """A value as a change writes it."""
    if value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return number_text(value)


def spliced(text: str, members: dict[str, str | None]) -> str:
    """An object with other members, in the bytes that it had."""
    found: list[tuple[str, str]] = []
    scan, at = json.JSONDecoder().raw_decode, 1
    while text[at] != "}":
        start = at
        at += len(text[at:]) - len(text[at:].lstrip(", "))
        name, at = scan(text, at)
        at += len(text[at:]) - len(text[at:].lstrip(": "))
        value = at
        _, at = scan(text, at)
        new = members.get(name, text[value:at])
        if new is not None:
            found.append((name, text[start:value] + new))
    names = [name for name, _ in found]
    pieces = [piece for _, piece in found]
    pieces += [f", {json.dumps(n)}: {v}" for n, v in members.items() if v and n not in names]
    return "{" + "".join(pieces).lstrip(", ") + "}"


def _same_record(one: Row | None, other: Row | None) -> bool:
    """Whether two rows have the same bytes; or neither is there."""
    return (one and one.text) == (other and other.text)


def _same_row(one: Row | None, other: Row | None) -> bool:
    """Whether it is the same row, in its place."""
    return one is other


def told_apart(written: Schema, schema: Schema) -> bool:
    """Whether rows written under one schema can always be told apart by the key of another."""
    return all(
        LADDER.index(written.columns[name].type) <= LADDER.index(schema.columns[name].type)
        for name in schema.keys
        if name in written.columns
    )


class OnDisk:
    """The lake's files read by the format's contract: log, byte ranges, gzip, JSON."""

    def __init__(self, lake: Path) -> None:
        self.folder = lake / "raw" / "tap" / "s"
        self.model = Model()
        self.versions: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.floor = 0
        self.blocks: dict[int, dict[str, Any]] = {}
        schemas: dict[str, Schema] = {}
        ends = self._ends = list[int]()
        blocks = 0
        names = sorted(path.name for path in (self.folder / "transactions").iterdir())
        assert names == [f"{n:012d}.json" for n in range(1, len(names) + 1)], "the log has a gap"
        hash_ = ""
        for name in names:
            entry = json.loads((self.folder / "transactions" / name).read_bytes())
            self.entries.append(entry)
            for new, spec in entry.get("schemas", {}).items():
                schemas[new] = Schema.of(spec["schema"], spec.get("key_properties", []))
            hash_ = entry.get("schema_hash") or hash_
            transaction = Transaction(entry["operation"], schemas[hash_])
            for block in entry.get("blocks", []):
                blocks += 1
                assert block["number"] == blocks
                self.blocks[blocks] = block
            ends.append(blocks)
            for first, last in entry.get("removed", []):
                for number in range(first, last + 1):
                    self.blocks.pop(number, None)
            for block in entry.get("moved", []):
                assert block["number"] in self.blocks
                self.blocks[block["number"]] = block
            self.floor = max(self.floor, entry.get("floor", 0))
            self.model.transactions.append(transaction)
            self._fold_versions(entry)
        placed = [one for block in self.blocks.values() for one in self._block(block, schemas)]
        self.placed = sorted(placed, key=lambda one: one[0])
        for position, event in self.placed:
            self.model.transactions[self.transaction_of(position[0])].events.append(event)

    @property
    def files(self) -> set[str]:
        """Paths of the data files that blocks lie in."""
        return {block["file"] for block in self.blocks.values()}

    def _fold_versions(self, entry: dict[str, Any]) -> None:
        if "version" in entry:
            self.versions.append(entry["version"])
        gone = entry.get("deletion", {}).get("version")
        self.versions = [one for one in self.versions if one["number"] != gone]
        for said in entry.get("erased", []):
            for version in self.versions:
                if version["number"] == said["version"]:
                    version |= {name: said[name] for name in (*PROOFS, "rows")}

    @property
    def lines(self) -> list[Position]:
        """Where RECORD lines are."""
        return [position for position, event in self.placed if isinstance(event, Row)]

    def transaction_of(self, block: int) -> int:
        """The index of the transaction that brought a block."""
        return bisect_left(self._ends, block)

    def _block(
        self, block: dict[str, Any], schemas: dict[str, Schema]
    ) -> list[tuple[Position, Event]]:
        start, end = block["offset"], block["offset"] + block["length"]
        text = gzip.decompress((self.folder / block["file"]).read_bytes()[start:end])
        head, *messages = [json.loads(line) for line in text.splitlines()]
        schema = Schema.of(head["schema"], head.get("key_properties") or [])
        assert schema == schemas[block["file"].split("/")[0]], "filed under another schema"
        number, rewritten = block["number"], "first_version" in block
        events: list[tuple[Position, Event]] = []
        activations = []
        rows = 0
        for message in messages:
            if message["type"] == "ACTIVATE_VERSION":
                # Where rows around it are gone, only the log knows how many there were.
                there = block["activations"][len(activations)][0] if rewritten else rows
                activations.append([there, message["version"]])
                events.append(((number, there, 0), Activate(message["version"], schema)))
                continue
            place = (number, rows, 1)
            if rewritten:
                place = (message["row_version"], message["row_ordinal"], 1)
                assert block["first_version"] <= place[0] <= number
            rows += 1
            events.append((place, Row(message["record"], message.get("version"), schema)))
        assert (rows, activations) == (block["rows"], block.get("activations", []))
        assert [place for place, _ in events] == sorted(place for place, _ in events)
        return events


class Downstream:
    """A Singer target that keeps a table in memory and applies what comes in to it."""

    def __init__(self) -> None:
        self.bookmark: dict[str, Any] | None = None
        self.rows: list[Row] = []
        self.schema = Schema({}, ())

    def read(self, lake: Lake, **settings: Any) -> None:
        """Take what came since the last time."""
        run = run_tap(lake, self.bookmark, **settings)
        for message in run.messages:
            match message["type"]:
                case "SCHEMA":
                    self.schema = Schema.of(message["schema"], message["key_properties"])
                case "RECORD":
                    row = Row(message["record"], message.get("version"), self.schema)
                    self.rows = apply(self.rows, row, self.schema)
                case "ACTIVATE_VERSION":
                    event = Activate(message["version"], self.schema)
                    self.rows = apply(self.rows, event, self.schema)
        self.bookmark = run.state

    def texts(self) -> list[str]:
        return texts_of(self.rows, self.schema)


class World:
    """The model, the lake and a target behind the lake's tap, kept in step.

    Args:
        spark: The session.
        folder: An empty one.
        often: Whether Spark reads every frozen version back after every step.
    """

    def __init__(self, spark: SparkSession, folder: Path, *, often: bool = False) -> None:
        self.spark = spark
        self.folder = folder / "lake"
        self.lake = Lake.open(str(self.folder), create=True)
        self.often = often
        self.model = Model()
        self.downstream = Downstream()
        self.rekeyed = False
        self._frozen: dict[int, FrozenVersion] = {}
        self._write_once: dict[Path, bytes] = {}
        self._losses = 0
        self._seen = (0, 0)

    @property
    def table(self) -> Any:
        return self.lake.find("tap.s")[0]

    # Steps

    def erase(self, *keys: tuple[Any, ...]) -> None:
        """Rows with all that they ever were: nowhere from then on, and all else is as it was."""
        schema = self.model.schema(self.model.head)
        hers = [
            (transaction, n)
            for transaction in self.model.transactions
            for n, event in enumerate(transaction.events)
            if isinstance(event, Row) and key_of(event, schema) in keys
        ]
        texts = [[str(value) for value in key] for key in keys]
        ids = [text[0] if len(text) == 1 else json.dumps(text) for text in texts]
        self._erase(EraseRequest(self.table, tuple(ids)), hers)
        rows = self.downstream.rows
        self.downstream.rows = [row for row in rows if key_of(row, schema) not in keys]
        erased = {json.dumps(dict(zip(schema.keys, key, strict=True))) for key in keys}
        for path, record in _records(self.folder):
            assert json.dumps({name: record.get(name) for name in schema.keys}) not in erased, path

    def erase_lines(self, number: int) -> None:
        """The same of single lines, by a condition: those of one person in a table with no key."""
        hers = [
            (transaction, n)
            for transaction in self.model.transactions
            for n, event in enumerate(transaction.events)
            if isinstance(event, Row) and event.record["id"] == number
        ]
        self._erase(EraseRequest(self.table, where=f"id = {number}"), hers)
        self.downstream.rows = [r for r in self.downstream.rows if r.record["id"] != number]
        for path, record in _records(self.folder):
            assert record.get("id") != number, path

    def _erase(self, asked: EraseRequest, hers: list[tuple[Transaction, int]]) -> None:
        """Erase, hold what is said of it to the model, and look for what should be gone."""
        model = self.model
        before = {number: model.texts(at) for number, at in model.versions.items()}
        old = {proof for one in self._frozen.values() for proof in _proofs(one)}
        lines = len(OnDisk(self.folder).lines)
        done = erase(asked, EraseOptions("request 12"), on(self.spark))
        for transaction, n in hers:
            transaction.events[n] = Gone(transaction.events[n].schema)
        disk = OnDisk(self.folder)
        went = lines - len(disk.lines)
        assert (done.lines, done.left) == (went, [])
        made = [entry["operation"] for entry in disk.entries[model.head :]]
        assert made[:2] == ["erase-start", "erase"] if went else "erase" not in made
        assert {*made} <= {"erase-start", "erase", "vacuum-start", "vacuum"}
        for operation in made:
            model.transactions.append(Transaction(operation, model.schema(model.head)))
        for version in restored(self.table.snapshot(dropped=True)).frozen:
            self._check_less(version, before[version.number])
        gone = old - {proof for one in self._frozen.values() for proof in _proofs(one)}
        for path in self.folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert not [proof for proof in gone if proof.encode() in data], path
        self._check_resealed()
        self._check_nothing_left(disk)
        for file in disk.files:
            size = sum(b["length"] for b in disk.blocks.values() if b["file"] == file)
            assert (disk.folder / file).stat().st_size == size, "bytes that no block is"

    def _check_less(self, version: FrozenVersion, before: list[str]) -> None:
        """Hold what is said of a version to what it is without the rows."""
        old = self._frozen[version.number]
        at = version.transaction
        texts = self.model.texts(at)
        assert version.rows == len(texts)
        assert version.fingerprint == fingerprint(texts)
        assert version.record_fingerprint == record_fingerprint(self.model.state(at))
        notes = [(note.rows_before, note.rows) for note in version.erased[len(old.erased) :]]
        assert notes == ([(len(before), len(texts))] if len(before) > len(texts) else [])
        same = ("number", "transaction", "label", "time")
        assert all(getattr(version, name) == getattr(old, name) for name in same)
        self._frozen[version.number] = version

    def _check_resealed(self) -> None:
        """An entry that was replaced says nothing else, but for what confirms a guess."""
        for path, data in self._write_once.items():
            if path.suffix != ".json" or (now := path.read_bytes()) == data:
                continue
            old, new = json.loads(data), json.loads(now)
            assert new["rewritten"] > new["number"]
            assert new["stands_for"] == (old.get("stands_for") or old["hash"])
            assert "salt" not in {**new, **new.get("signature", {})}
            for entry in (old, new):
                entry.get("signature", {}).pop("salt", None)
                for name in ("rewritten", "stands_for", "hash", "format", "lanes", "erased"):
                    entry.pop(name, None)
                entry.pop("salt", None)
                for name in ("rows", "fingerprint", "record_fingerprint"):
                    entry.get("version", {}).pop(name, None)
                for block in (*entry.get("blocks", ()), *entry.get("moved", ())):
                    block.pop("crc", None)
            assert new == old
            self._write_once[path] = now

    def drop_and_bring_back(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """All is as it was, under the same numbers."""
        options, model = AlterOptions(), self.model
        drop_table(self.lake.store, self.table.snapshot(), options, with_versions=True)
        model.transactions.append(Transaction("drop", model.schema(model.head)))
        meanwhile()
        undrop_table(self.lake.store, self.table.snapshot(dropped=True), options)
        model.transactions.append(Transaction("undrop", model.schema(model.head)))

    def sync(self, *parts: tuple[Schema, list[Message]], block_rows: int = 3) -> None:
        """One run of the target: one transaction, if there is anything to commit."""
        lines: list[bytes] = []
        for schema, messages in parts:
            lines.append(schema.line())
            lines += [_line(message) for message in messages]
        schema = parts[-1][0]
        events = [_event(message, schema) for schema, some in parts for message in some]
        harness.run(self.folder, lines, tap_id="tap", block_rows=block_rows)
        model = self.model
        if events or not model.head or schema != model.schema(model.head):
            if model.head and schema.keys != model.schema(model.head).keys:
                self.rekeyed = True
            model.transactions.append(Transaction("sync", schema, events))

    def freeze(self, at: int | None = None, label: str | None = None) -> FrozenVersion:
        """A table version, held to the model's count and fingerprint."""
        model = self.model
        # By turns without Spark, which must come to the same.
        if len(model.transactions) % 2 and not self.often:
            version = here.freeze(self.table, at=at, label=label)
        else:
            version = freeze(self.spark, self.table, at=at, label=label)
        at = model.head if at is None else at
        texts = model.texts(at)
        said = (version.number, version.transaction, version.label, version.rows)
        assert said == (len(model.versions) + len(model.deleted) + 1, at, label, len(texts))
        assert version.fingerprint == fingerprint(texts)
        assert version.record_fingerprint == record_fingerprint(model.state(at))
        model.versions[version.number] = at
        if label is not None:
            model.labels[label] = at
        model.transactions.append(Transaction("freeze", model.schema(model.head)))
        self._frozen[version.number] = version
        return version

    def point(self, name: str, number: int | None) -> None:
        """A pointer moves to a version, stays there, or is removed."""
        model = self.model
        wanted = None if number is None else str(number)
        done = point(self.table.store, self.table.snapshot(), name, wanted)
        assert done.before == model.pointers.pop(name, None)
        assert (done.transaction is None) == (done.before == number)
        if number is not None:
            model.pointers[name] = number
        if done.transaction is not None:
            model.transactions.append(Transaction("point", model.schema(model.head)))

    def sign(self, number: int, key: Key) -> None:
        """A version gets a signature, unless the key has signed what it is now."""
        model, head = self.model, self.table.snapshot()
        version = head.version(str(number))
        known = [(note.rows, bool(note.salt)) for note in version.signed]
        done = sign(self.table.store, head, str(number), key)
        if done.new:
            model.transactions.append(Transaction("sign", model.schema(model.head)))
        signed = self.table.snapshot().version(str(number)).signed
        assert [(note.rows, bool(note.salt)) for note in signed] == [
            *known,
            *[(version.rows, True)] * done.new,
        ]

    def delete_version(self, number: int) -> None:
        """A version goes; its number is not used again, and its state is history."""
        model = self.model
        if number in model.pointers.values():
            with pytest.raises(ConflictError, match="is named by @"):
                delete_version(self.table.store, self.table.snapshot(), str(number), "wrong")
            return
        delete_version(self.table.store, self.table.snapshot(), str(number), "wrong")
        model.transactions.append(Transaction("delete-version", model.schema(model.head)))
        model.deleted[number] = (model.versions.pop(number), model.head)
        label = self._frozen.pop(number).label
        model.labels.pop(label or "", None)
        with pytest.raises(NotFoundError, match="was deleted"):
            self.table.snapshot().version(str(number))

    def revert(self, to: int) -> None:
        """Back to a transaction; what it says it did is held to the model."""
        model = self.model
        wanted = model.difference(to)
        came_between = model.events(model.head, after=to)
        same_schema = model.schema(to) == model.schema(model.head)
        done = revert(self.spark, self.table, to)
        if same_schema and not (came_between and wanted.events):
            assert (done.transaction, done.put_back, done.deleted) == (None, 0, 0)
            assert done.unchanged == len(model.state(to))
            return
        assert done.transaction == model.head + 1
        if not (model.floor and self.rekeyed):  # by another key, some rows may be gone already
            assert (done.put_back, done.deleted, done.unchanged) == wanted[1:]
        self.rekeyed |= model.schema(to).keys != model.schema(model.head).keys
        model.transactions.append(Transaction("revert", model.schema(to), wanted.events))
        assert model.texts(model.head) == model.texts(to), "the model itself is wrong"
        self._check_head()

    def undo(self, number: int, mode: OnConflict) -> None:
        """What one transaction did is taken back; what it says it did is held to the model."""
        model = self.model
        wanted = model.undone(number, mode)
        if wanted.conflicts and mode is OnConflict.FAIL:
            with pytest.raises(ConflictError, match="changed later"):
                undo(self.spark, self.table, [number])
            return
        done = undo(self.spark, self.table, [number], on_conflict=mode)
        assert (done.put_back, done.deleted, done.conflicts) == wanted[1:4]
        changes = bool(wanted.events) or wanted.schema != model.schema(model.head)
        assert done.transaction == (model.head + 1 if changes else None)
        if changes:
            model.transactions.append(Transaction("revert", wanted.schema, wanted.events))
            self._check_head()

    def _check_head(self) -> None:
        """Hold what the blocks say now to the model, values and bytes."""
        model = self.model
        content = here.content(self.table)
        assert content.fingerprint == fingerprint(model.texts(model.head))
        assert content.record_fingerprint == record_fingerprint(model.state(model.head))

    def change(self, asked: Asked) -> None:
        """Rows of a table with a key inserted, changed and deleted, as one transaction."""
        keys = self.model.schema(self.model.head).keys
        given = [
            {**dict(zip(keys, key, strict=True)), **cells} for key, cells in asked.rows.items()
        ]
        given += [{**dict(zip(keys, key, strict=True)), "_delete": True} for key in asked.deleted]
        mode = Mode.REPLACE if asked.all_rows else Mode.UPSERT
        self._change(given, mode, self.model.changed(asked))

    def change_by_id(
        self, inserted: list[dict[str, Any]], by_id: list[tuple[Row, dict[str, Any] | None]]
    ) -> None:
        """The same without a key, where rows that are there go by their positions."""
        disk = OnDisk(self.folder)
        there = {id(event): position for position, event in disk.placed}
        found = disk.model.state(disk.model.head)
        given: list[dict[str, Any]] = list(inserted)
        for row, cells in by_id:
            # Of equal rows it does not matter which.
            at = next(n for n, one in enumerate(found) if _alike(one, row))
            block, ordinal, _ = there[id(found.pop(at))]
            named = {"_row_id": f"{block}:{ordinal}", "_row_version": block}
            given.append({**named, **({"_delete": True} if cells is None else cells)})
        self._change(given, Mode.UPSERT, self.model.changed_by_id(inserted, by_id))

    def _change(self, given: list[dict[str, Any]], mode: Mode, wanted: Change) -> None:
        model = self.model
        schema = model.schema(model.head)
        done = change(
            self.spark,
            self.table,
            lambda present: [row_set(self.spark, present, given, names=[*schema.columns])],
            mode,
        )
        told = (done.inserted, done.updated, done.deleted, done.unchanged, done.absent)
        assert told == wanted.counts
        assert done.transaction == (model.head + 1 if wanted.events else None)
        if not wanted.events:
            return
        model.transactions.append(Transaction("change", schema, wanted.events))
        self._check_head()

    def vacuum(self, *parts: str, target_file_bytes: int = 1 << 20) -> None:
        """With nothing retained: afterwards there is nothing on the disk that nothing needs."""
        options = VacuumOptions(
            retain_seconds=0, guard=False, parts=parts, target_file_bytes=target_file_bytes
        )
        one, other = partial(vacuum_on_spark, self.spark), vacuum_here
        if self.model.head % 2:
            one, other = other, one
        one(self.table, options)
        disk, model = OnDisk(self.folder), self.model
        made = [entry["operation"] for entry in disk.entries[model.head :]]
        allowed = ["vacuum-start", "drop-history", "combine", "vacuum"]
        assert made == [operation for operation in allowed if operation in made]
        assert {"drop-history", "combine"} & {*made} <= {*parts}
        for operation in made:
            model.transactions.append(Transaction(operation, model.schema(model.head)))
        assert disk.floor == self.table.snapshot().floor >= model.floor
        model.floor = disk.floor
        if "delete" in parts:
            self._check_nothing_left(disk)
        again = other(self.table, options)
        assert again.transaction == 0, "a second run has nothing to do"

    def _check_nothing_left(self, disk: OnDisk) -> None:
        raw = self.folder / "raw" / "tap" / "s"
        files = {path.relative_to(raw).as_posix() for path in raw.glob("*/*.singer.gz")}
        assert files == disk.files
        assert [path.name for path in (self.folder / ".staging").iterdir()] in (
            [],
            ["replace.lock"],
        )
        assert not [*raw.glob("leases/*"), *raw.glob("*.lock")]
        for folder in self.folder.glob("index/tap/s/*"):
            named = {path.name for path in folder.iterdir()}
            if named:
                marker = json.loads((folder / "_index.json").read_bytes())
                assert named == {"_index.json", *(file["path"] for file in marker["files"])}

    def query(self, name: str, at: int) -> None:
        """Ask SQL for a state of the table."""
        assert self._asked({name: at}) == {name: self.model.texts(at)}

    def query_time(self, at: int) -> None:
        """Ask SQL for the state at the time of a transaction."""
        times = [entry["time"] for entry in OnDisk(self.folder).entries]
        latest = max(n for n, time in enumerate(times, start=1) if time <= times[at - 1])
        self.query(f"tap.s TIMESTAMP AS OF '{times[at - 1]}'", latest)

    def drop_index(self, at: int | None = None) -> None:
        """Lose the indexes, or the one of a transaction."""
        self._losses += 1
        folder = self.folder / "index" / "tap" / "s"
        shutil.rmtree(folder if at is None else folder / str(at), ignore_errors=True)

    def drop_manifest(self) -> None:
        (self.folder / "raw" / "tap" / "s" / "manifest.json").unlink(missing_ok=True)

    def rebuild(self) -> None:
        """Make again what was lost."""
        rebuild_table(self.lake.store, self.table.name)

    def read_downstream(self) -> None:
        """Let the tap go on from its bookmark."""
        self.downstream.read(self.lake)
        if not self.rekeyed:
            assert self.downstream.schema == self.model.schema(self.model.head)
            assert self.downstream.texts() == self.model.texts(self.model.head)

    # What holds after every step

    def check(self) -> None:
        """Everything that can be seen without Spark; with ``often``, what Spark sees as well."""
        disk = OnDisk(self.folder)
        model = self.model
        assert [t.operation for t in disk.model.transactions] == [
            t.operation for t in model.transactions
        ]
        snapshot = self.table.snapshot()
        for at in range(1, model.head + 1):
            assert disk.model.schema(at) == model.schema(at), f"schema at {at}"
            if model.readable(at):
                assert disk.model.texts(at) == model.texts(at), f"state at {at}"
            else:
                with pytest.raises(
                    NotFoundError, match="history has expired|the table was dropped then"
                ):
                    snapshot.at(at)
        assert [v["number"] for v in disk.versions] == sorted(model.versions)
        frozen = [_unnoted(version) for version in self._frozen.values()]
        plain = [structs.replace(version, erased=[]) for version in frozen]
        assert [FrozenVersion(**v) for v in disk.versions] == plain
        assert snapshot.number == model.head
        assert [_unnoted(version) for version in snapshot.frozen] == frozen
        pointers = versions.pointers(snapshot)
        assert {name: one.number for name, (one, _) in pointers.items()} == model.pointers
        PlainTable("raw/tap/s/", {}, disk.entries).check_signatures()
        self._check_write_once()
        self._check_indexes()
        if self.often and self._seen != (model.head, self._losses):
            self.check_versions()
            self._seen = (model.head, self._losses)

    def check_versions(self) -> None:
        """Every frozen version and the head, all in one query; and each version by the tap's rows.

        The query has made the index of each, by which the tap finds them.
        """
        wanted = {f"tap.s.{number}": at for number, at in self.model.versions.items()}
        wanted["tap.s"] = self.model.head
        assert self._asked(wanted) == {name: self.model.texts(at) for name, at in wanted.items()}
        for number, at in self.model.versions.items():
            put_out = run_tap(self.lake, mode="rows", table_version=number).records()
            rows = [json.loads(row.text) for row in self.model.state(at)]
            assert in_order(put_out) == in_order(rows), f"rows of version {number}"

    def check_end(self) -> None:
        """What is dear: versions by new indexes, and from the blocks alone; and all downstream."""
        self.drop_index()
        self.check_versions()
        snapshot = self.table.snapshot()
        for version in self._frozen.values():
            content = here.content(self.table, snapshot.at(version.transaction))
            assert (content.rows, content.fingerprint) == (version.rows, version.fingerprint)
        self.read_downstream()
        if self.rekeyed:
            return
        for version in [None, *self._frozen.values()]:
            fresh = Downstream()
            fresh.read(self.lake, **({"table_version": version.number} if version else {}))
            at = version.transaction if version else self.model.head
            assert fresh.texts() == self.model.texts(at), f"a new target, version {version}"

    def _check_write_once(self) -> None:
        raw = self.folder / "raw" / "tap" / "s"
        kept = [*raw.glob("transactions/*.json"), *raw.glob("*/*.singer.gz")]
        now = {path: path.read_bytes() for path in kept}
        files = OnDisk(self.folder).files
        for path, data in self._write_once.items():
            dropped = path.suffix == ".gz" and path.relative_to(raw).as_posix() not in files
            allowed = (data, None) if dropped else (data,)
            assert now.get(path) in allowed, f"{path} was changed or deleted"
        assert not list(raw.glob("*/singerlake.lock"))
        self._write_once = now

    def _check_indexes(self) -> None:
        """Each index on the store, read without Spark, is the state that it is filed under."""
        for folder in self.folder.glob("index/tap/s/*"):
            if not self._is_whole(folder):
                continue
            at = int(folder.name)
            names = list(self.model.schema(at).columns)
            found = self._indexed(folder)
            texts = sorted(row_text({name: row[name] for name in names}) for row in found)
            assert texts == self.model.texts(at), f"index at {at}"

    def _is_whole(self, folder: Path) -> bool:
        """Whether an index is there, and what it lies on: else nobody reads it."""
        if not (folder / "_index.json").exists():
            return False
        base = json.loads((folder / "_index.json").read_bytes()).get("base")
        return not base or self._is_whole(folder.parent / f"{base}")

    def _indexed(self, folder: Path) -> list[dict[str, Any]]:
        """The state that an index holds, as ``docs/internals/format.md`` has it."""
        marker = json.loads((folder / "_index.json").read_bytes())
        parts = [pq.read_table(folder / file["path"]) for file in marker["files"]]
        found: list[dict[str, Any]] = [row for part in parts for row in part.to_pylist()]
        if not marker.get("base"):
            assert marker["rows"] == len(found)
            return found
        assert marker["rows"] is None
        keys = self.model.schema(marker["transaction"]).keys
        changed = {tuple(row[key] for key in keys) for row in found} if keys else set()
        below = self._indexed(folder.parent / f"{marker['base']}")
        left = [row for row in below if tuple(row[key] for key in keys) not in changed]
        return [row for row in found if not row["_deleted"]] + left

    def _asked(self, wanted: dict[str, int]) -> dict[str, list[str]]:
        options = "map('ignoreNullFields', 'false')"
        sql = " UNION ALL ".join(
            f"SELECT {number} AS place, to_json(struct(t.*), {options}) AS row FROM {name} AS t"
            for number, name in enumerate(wanted)
        )
        answer = query(self.spark, self.lake, sql)
        assert {source.transaction for source in answer.sources} == set(wanted.values())
        names = list(wanted)
        found: dict[str, list[str]] = {name: [] for name in names}
        for place, text in answer.rows():
            values = json.loads(text)
            assert set(values) == set(self.model.schema(wanted[names[place]]).columns)
            found[names[place]].append(row_text(values))
        return {name: sorted(texts) for name, texts in found.items()}


def _unnoted(version: FrozenVersion) -> FrozenVersion:
    return structs.replace(version, pointed=[], signed=[])


def _proofs(version: FrozenVersion) -> tuple[str, ...]:
    return tuple(getattr(version, name) for name in PROOFS)


def _records(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """What any file has of rows, whoever knows of it."""
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            yield from ((path, row) for row in pq.read_table(path).to_pylist())
        elif path.suffix == ".gz" or ".staging" in path.parts:
            data = path.read_bytes() if path.is_file() else b""
            text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
            lines = (json.loads(line) for line in text.splitlines() if line.startswith(b"{"))
            yield from ((path, line["record"]) for line in lines if "record" in line)


def _alike(one: Row, other: Row) -> bool:
    return (repr(one.record), one.schema) == (repr(json.loads(other.text)), other.schema)


def _line(message: Message) -> bytes:
    if isinstance(message, int):
        return harness.activate("s", message)
    if isinstance(message, dict):
        return harness.record("s", message)
    return harness.record("s", message[0], version=message[1])


def _event(message: Message, schema: Schema) -> Event:
    if isinstance(message, int):
        return Activate(message, schema)
    record, version = message if isinstance(message, tuple) else (message, None)
    return Row(record, version, schema)
