"""What people say of a table, in plain Python, and the real table beside it.

``model_machine.py`` holds a table's rows to their bytes. Here they are values under columns that
people add, drop, rename and retype: a state is its rows as they came, and what is said of columns
decides how they are shown. Nothing here shares code with how the lake lays an overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import (
    DroppedError,
    NotFoundError,
    RejectedRowsError,
    UsageError,
    ViolationsError,
)
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.alter.alter import alter as alter_rows
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.rebuild import rebuild_table
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange, alter
from tests.build import commit_rows
from tests.faults import plain
from tests.histories.model_machine import cast, number_text
from tests.overlay.test_overlay_changes import rows as rows_read
from tests.tap.run import Run
from tests.tap.run import run as run_tap
from tests.target.harness import run as load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "tap.s"
Kinds = Mapping[str, str]
"""Kinds of columns, by the names that records have for them."""
Cells = dict[str, Any]


class Row(NamedTuple):
    """A row as it came.

    Attributes:
        record: Its members.
        declared: The kinds of those that its schema declares.
        since: The transaction that brought it; that of the first, where it was written again.
    """

    record: Cells
    declared: Kinds
    since: int


class Added(NamedTuple):
    """A column that people added: its kind, and its defaults by the transactions they are from."""

    kind: str
    defaults: tuple[tuple[int, Any], ...]


@dataclass(frozen=True)
class Said:
    """What people said, by the names that records have for columns."""

    names: Mapping[str, str] = field(default_factory=dict)
    kinds: Kinds = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    added: Mapping[str, Added] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Columns that may be 0 to 5, by the names of the constraints."""


@dataclass(frozen=True)
class State:
    """A table as it is after a transaction."""

    tap: Kinds
    tap_keys: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    said: Said = field(default_factory=Said)
    dropped: bool = False

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """Member and kind of each column, by the name that people see."""
        said = self.said
        given = {said.names[m] for m in self.tap if m in said.names and m not in said.dropped}
        found = {
            said.names.get(member, member): (member, said.kinds.get(member, kind))
            for member, kind in self.tap.items()
            if member not in said.dropped and (member in said.names or member not in given)
        }
        added = {said.names.get(m, m): (m, one.kind) for m, one in said.added.items()}
        return {**found, **added}

    @property
    def keys(self) -> tuple[str, ...]:
        """The key, by the names that people see."""
        said = self.said
        return said.key or tuple(said.names.get(key, key) for key in self.tap_keys)

    def shown(self, row: Row) -> Cells:
        """A row as people see it."""
        return {name: self.value(row, *column) for name, column in self.columns.items()}

    def value(self, row: Row, member: str, kind: str) -> Any:
        """What a row has in a column."""
        if (added := self.said.added.get(member)) is not None:
            first = added.defaults[1][0]
            if row.since < first or member not in row.declared:
                return [value for since, value in added.defaults if since <= row.since][-1]
        if member not in row.declared:
            return None
        return become(row.record.get(member), row.declared[member], kind)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """What tells a row from the others."""
        columns = self.columns
        return tuple(self.value(row, *columns[name]) for name in self.keys)

    @property
    def texts(self) -> list[str]:
        """All rows as people see them, in a form that can be compared."""
        return texts_of(map(self.shown, self.rows))

    @property
    def written(self) -> dict[str, str]:
        """The kinds of the members of a record that a change writes."""
        seen = dict(self.columns.values())
        unseen = {m: kind for m, kind in self.tap.items() if m not in seen}
        return {**unseen, **seen, **{m: one.kind for m, one in self.said.added.items()}}

    def fits(self) -> bool:
        """Whether its key tells its rows apart."""
        if not self.keys:
            return True
        found = [self.key_of(row) for row in self.rows]
        return len({*found}) == len(found) and not any(None in key for key in found)


def become(value: Any, old: str, new: str) -> Any:
    """A value of one kind as one of another; a text that becomes a number is one."""
    if isinstance(value, str) and new != "string":
        return {"integer": int, "number": float}[new](value)
    return cast(value, old, new)


def texts_of(rows: Any) -> list[str]:
    """Rows in a form that can be compared: in no order, no null said."""
    return sorted(
        repr(sorted((n, _text(v)) for n, v in row.items() if v is not None)) for row in rows
    )


def check_alike(found: Any, state: State, where: str) -> None:
    """Hold rows that were read against a state."""
    read, wanted = texts_of(found), state.texts
    more, less = ([one for one in a if one not in b] for a, b in ((read, wanted), (wanted, read)))
    assert read == wanted, f"{where}: there are {more}, and not {less}"


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else number_text(value)


class Counts(NamedTuple):
    """What a change did."""

    inserted: int
    updated: int
    deleted: int
    unchanged: int
    absent: int


def changed(
    state: State, number: int, wanted: Mapping[tuple[Any, ...], Cells], gone: list[Any]
) -> tuple[State, Counts]:
    """Change rows by their keys.

    Args:
        state: The table.
        number: The transaction.
        wanted: Cells by the names that people see; explicit nulls are null.
        gone: Keys of rows that go.
    """
    rows = {state.key_of(row): row for row in state.rows}
    written = state.written
    inserted = updated = deleted = unchanged = 0
    for key, cells in wanted.items():
        whole = {**dict(zip(state.keys, key, strict=True)), **cells}
        if key not in rows:
            inserted += 1
            record = {
                member: whole.get(name, default_of(state, member))
                if name in whole
                else default_of(state, member)
                for name, (member, _) in state.columns.items()
            }
            rows[key] = Row(record, written, number)
            continue
        row = rows[key]
        now = state.shown(row)
        if all(now[name] == value for name, value in cells.items()):
            unchanged += 1
            continue
        updated += 1
        kept = {
            member: become(row.record.get(member), row.declared[member], kind)
            for member, kind in written.items()
            if member in row.declared
        }
        record = {
            **kept,
            **{member: {**now, **cells}[name] for name, (member, _) in state.columns.items()},
        }
        rows[key] = Row(record, written, number)
    for key in gone:
        deleted += rows.pop(key, None) is not None
    counts = Counts(inserted, updated, deleted, unchanged, len(gone) - deleted)
    return replace(state, rows=tuple(rows.values())), counts


def default_of(state: State, member: str) -> Any:
    """What a new row has that does not name a column."""
    if member in state.said.added:
        return state.said.added[member].defaults[-1][1]
    return state.said.defaults.get(member)


class World:
    """The table in plain Python and the real one, kept in step.

    Args:
        folder: An empty one.
        tap: The kinds of what the tap sends.
        keys: Its key.
        spark: The session; None for what needs none.
    """

    def __init__(
        self, folder: Path, tap: Kinds, keys: tuple[str, ...], spark: SparkSession | None = None
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.root = folder / "lake"
        self.lake = Lake.open(str(self.root), create=True)
        self.states = [State(tap, keys)]
        self.versions: dict[int, int] = {}
        self.begun = 1
        self.floor = 0
        self.lost = False
        self.copies = 0
        self.bookmark: dict[str, Any] | None = None
        self.copied: tuple[str, ...] | None = None

    @property
    def table(self) -> Table:
        return self.lake.find(TABLE)[0]

    @property
    def head(self) -> State:
        return self.states[-1]

    @property
    def number(self) -> int:
        """The last transaction."""
        return len(self.states) - 1

    def _add(self, state: State) -> None:
        self.states.append(state)

    # What the tap and people do

    def sync(self, tap: Kinds, records: list[Cells], gone: list[Cells]) -> None:
        """A run of the tap: rows, and deletions behind them."""
        properties: dict[str, Any] = {
            name: {"type": kind if name == "id" else ["null", kind]} for name, kind in tap.items()
        }
        keys = self.states[0].tap_keys
        deleted = [{**one, "_sdc_deleted_at": "2026-01-01"} for one in gone]
        commit_rows(self.lake, TABLE, properties, [*keys], [*records, *deleted], block_rows=3)
        old, number = self.head, self.number + 1
        if old.dropped:
            self.begun, self.lost = number, False
            self.versions.clear()
            old = replace(self.states[0], dropped=False)
        state = replace(old, tap=tap, rows=())
        rows = list(old.rows)
        for record in (*records, *deleted):
            row = Row(record, tap, number)
            if state.keys:
                rows = [one for one in rows if state.key_of(one) != state.key_of(row)]
            if "_sdc_deleted_at" not in record:
                rows.append(row)
        self._add(replace(state, rows=tuple(rows)))

    def say(self, change: OverlayChange, said: Said, *, rows: bool = False) -> None:
        """Alter the table; a dry run tells what the run does."""
        wanted = replace(self.head, said=said)
        before = self.table.snapshot().number
        if rows:
            asked = partial(alter_rows, self.table, change, choice=self._choice())
        else:
            asked = partial(alter, self.table.store, self.table.snapshot(), change)
        dry = asked(options=AlterOptions(dry_run=True))
        assert self.table.snapshot().number == before
        done = asked(options=AlterOptions())
        assert (dry.changes, dry.rows, dry.transaction) == (done.changes, done.rows, None)
        assert done.rows in (None, len(wanted.rows))
        assert (done.transaction is None) == (said == self.head.said)
        if done.transaction is not None:
            self._add(wanted)

    def refuse(self, error: type[Exception], do: Callable[[], Any]) -> None:
        """Make sure that something is refused, and that nothing changes."""
        before = plain.dump_folder(self.root / "raw")
        with pytest.raises(error):
            do()
        assert plain.dump_folder(self.root / "raw").keys() >= before.keys()
        assert self.table.snapshot().number == self.number

    def set_key(self, names: tuple[str, ...]) -> None:
        """Give the table another key, if it is one."""
        change = partial(says.with_key, names=names)
        said = replace(self.head.said, key=names)
        same = self.head.said.key is None and names == self.head.keys
        wanted = replace(self.head, said=self.head.said if same else said)
        if not wanted.fits():
            return self.refuse(
                ViolationsError, lambda: alter_rows(self.table, change, choice=self._choice())
            )
        self.say(change, wanted.said, rows=True)
        return None

    def add_range(self, column: str) -> None:
        """Ask that a column is 0 to 5, if it is."""
        name = f"range of {column}"
        one = Constraint("range", [column], minimum=0, maximum=5)
        change = partial(says.with_constraint, name=name, constraint=one)
        values = [self.head.shown(row)[column] for row in self.head.rows]
        if any(value is not None and not 0 <= value <= 5 for value in values):
            return self.refuse(
                ViolationsError, lambda: alter_rows(self.table, change, choice=self._choice())
            )
        said = self.head.said
        return self.say(change, replace(said, ranges={**said.ranges, name: column}), rows=True)

    def change(self, wanted: Mapping[tuple[Any, ...], Cells], gone: list[Any]) -> None:
        """Rows inserted, changed and deleted; a dry run counts as the run does."""
        from singerlake.ops.change.table_change import TableChange

        after, counts = changed(self.head, self.number + 1, wanted, gone)
        broken = [
            cells[column]
            for cells in wanted.values()
            for column in self.head.said.ranges.values()
            if cells.get(column) is not None and not 0 <= cells[column] <= 5
        ]
        keys = self.head.keys
        given = [{**dict(zip(keys, key, strict=True)), **cells} for key, cells in wanted.items()]

        def do(*, dry_run: bool) -> Any:
            from singerlake.ops.change.plan import ChangeOptions

            options = ChangeOptions(dry_run=dry_run)
            with TableChange(self.table, options, self._choice()) as asked:
                asked.upsert(given)
                asked.delete([dict(zip(keys, key, strict=True)) for key in gone])
            return asked.result

        if broken:
            return self.refuse(RejectedRowsError, lambda: do(dry_run=len(given) % 2 == 0))
        for dry_run in (True, False):
            done = do(dry_run=dry_run)
            told = (done.inserted, done.updated, done.deleted, done.unchanged, done.absent)
            assert told == counts
        assert (done.transaction is None) == (not any(counts[:3]))
        if done.transaction is not None:
            self._add(after)
        return None

    def revert(self, to: int) -> None:
        """Back to the rows of a transaction, under what is said now."""
        from tests.frozen import revert_on_spark as revert

        old = self.states[to]
        wanted = replace(self.head, tap=old.tap, rows=old.rows)
        lacks = [name for name in wanted.keys if name not in wanted.columns]
        if lacks or not wanted.fits():
            error = UsageError if lacks else ViolationsError
            return self.refuse(error, lambda: revert(self._session(), self.table, to))
        done = revert(self._session(), self.table, to)
        if done.transaction is None:
            assert (wanted.texts, wanted.columns) == (self.head.texts, self.head.columns)
        else:
            self._add(wanted)
        return None

    def freeze(self) -> None:
        """The head as a version."""
        version = freeze(self.table, FreezeOptions(again=True), self._choice()).version
        assert version.rows == len(self.head.rows)
        self._add(self.head)
        self.versions[version.number] = version.transaction

    def vacuum(self, *parts: str) -> None:
        """With nothing retained."""
        from singerlake.ops.vacuum.plan import VacuumOptions
        from tests.frozen import vacuum_here, vacuum_on_spark

        options = VacuumOptions(retain_seconds=0, guard=False, parts=parts)
        if self.spark is None or self.number % 2:
            vacuum_here(self.table, options)
        else:
            vacuum_on_spark(self.spark, self.table, options)
        snapshot = self.table.snapshot(dropped=True)
        while self.number < snapshot.number:
            self._add(self.head)
        self.floor = snapshot.floor
        self.lost |= self.head.dropped and "delete" in parts

    def drop(self) -> None:
        drop_table(self.lake.store, self.table.snapshot(), AlterOptions(), with_versions=True)
        self._add(replace(self.head, dropped=True))

    def undrop(self) -> None:
        """Bring it back, unless a vacuum has taken its files."""
        snapshot = self.table.snapshot(dropped=True)
        if self.lost:
            with pytest.raises(DroppedError):
                undrop_table(self.lake.store, snapshot, AlterOptions())
            return
        undrop_table(self.lake.store, snapshot, AlterOptions())
        self._add(replace(self.head, dropped=False))

    def lose(self, *, index: bool, rebuild: bool) -> None:
        """What is derived; none of it is the truth."""
        import shutil

        (self.root / "raw" / "tap" / "s" / "manifest.json").unlink(missing_ok=True)
        if index:
            shutil.rmtree(self.root / "index", ignore_errors=True)
        if rebuild:
            rebuild_table(self.lake.store, self.table.name)

    def read_downstream(self) -> None:
        """Let the tap go on from its bookmark, into another lake."""
        keys = tuple(self.head.columns[name][0] for name in self.head.keys)
        if self.copied != keys:  # a target cannot be told of another key of its rows
            self.copies, self.bookmark, self.copied = self.copies + 1, None, keys
        out = run_tap(self.lake, self.bookmark)
        self.bookmark = out.state
        lines = [line for line, kind in zip(out.lines, out.kinds, strict=True) if kind != "STATE"]
        self.check_names(out)
        target = self.folder / f"copy{self.copies}"
        load(target, b"".join(lines), tap_id="copy")
        copy = Lake.open(str(target)).find("copy.s")[0].snapshot()
        found = rows_read(Lake.open(str(target)).find("copy.s")[0], copy)
        check_alike(found, self.head, "downstream")

    def read_rows(self, version: int, at: int) -> None:
        """Let the tap put out the rows of a version, each once, into a lake of their own."""
        out = run_tap(self.lake, mode="rows", table_version=version)
        lines = [line for line, kind in zip(out.lines, out.kinds, strict=True) if kind != "STATE"]
        target = self.folder / f"rows{version}"
        load(target, b"".join(lines), tap_id="copy")
        table = Lake.open(str(target)).find("copy.s")[0]
        check_alike(rows_read(table, table.snapshot()), self.states[at], f"rows of {version}")

    def check_names(self, out: Run) -> None:
        """What goes out has the table's columns, and before others only those that a tap sent."""
        head = self.head
        sent = {m for state in self.states[self.begun : self.number + 1] for m in state.tap}
        shown = {head.said.names.get(m, m) for m in sent - head.said.dropped} | {*head.columns}
        schemas = [{*one["schema"]["properties"]} for one in out.of("SCHEMA")]
        assert schemas[-1] == {*head.columns}
        for names in (*schemas, *out.records()):
            assert {*names} - {"_sdc_deleted_at"} <= shown

    # What holds after every step

    def check(self) -> None:
        """All that can be seen without Spark."""
        whole = self.table.snapshot(dropped=True)
        assert whole.number == self.number
        plain.tables(plain.dump_folder(self.root))  # fails where the log is not sound
        if self.head.dropped:
            with pytest.raises(NotFoundError):
                self.table.snapshot()
            return
        snapshot = self.table.snapshot()
        assert {v.number: v.transaction for v in snapshot.frozen} == self.versions
        for at in range(self.begun, self.number + 1):
            if self.readable(at):
                state = self.states[at]
                found = rows_read(self.table, snapshot.at(at))
                assert {name for row in found for name in row} <= {*state.columns}
                check_alike(found, state, f"at {at} of {self.number}")

    def readable(self, at: int) -> bool:
        """Whether the state after a transaction is promised."""
        if self.states[at].dropped:
            return False
        return at >= max(self.floor, self.begun) or at in self.versions.values()

    def check_end(self) -> None:
        """What needs Spark: the head and a version, asked of SQL; and a target that is new."""
        if self.head.dropped:
            return
        self.read_downstream()
        self.copied = None
        self.read_downstream()
        for version, at in self.versions.items():
            self.read_rows(version, at)
        if self.spark is None:
            return
        from singerlake.sql.queries.query import query

        wanted = {"tap.s": self.number}
        for version in [*self.versions][-1:]:  # all states were read in this process, step by step
            wanted[f"tap.s.{version}"] = self.versions[version]
        for name, at in wanted.items():
            columns = [*self.states[at].columns]
            listed = ", ".join(f"`{column}`" for column in columns)
            answer = query(self.spark, self.lake, f"SELECT {listed} FROM {name}")
            found = [dict(zip(columns, row, strict=True)) for row in answer.rows()]
            check_alike(found, self.states[at], name)

    def _choice(self) -> EngineChoice:
        """This process, or Spark every other time."""
        if self.spark is None:
            return EngineChoice(LOCAL)
        if self.number % 2:
            return EngineChoice.of(spark=self.spark)
        return EngineChoice.of(start=self._session)

    def _session(self) -> SparkSession:
        assert self.spark is not None, "this needs Spark"
        return self.spark
