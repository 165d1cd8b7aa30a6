"""Random histories of a table against a plain model of it (``model_machine.py``).

In CI a few histories, the same ones in every run. For many others:

    SINGERLAKE_EXAMPLES=200 pytest tests/histories/test_model.py -k random --hypothesis-seed=1
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from singerlake.engine.spark import engine as spark_engine
from singerlake.engine.work import Work
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.vacuum.plan import PARTS
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot import building
from singerlake.sql.queries.query import query
from singerlake.sql.state import requested_rows
from tests.histories.model_machine import (
    AT,
    DELETED,
    LADDER,
    Asked,
    Column,
    Message,
    Schema,
    World,
    fingerprint,
    row_text,
)
from tests.sshsig import Key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
KINDS = {"keyed": ("id",), "compound": ("id", "part"), "keyless": ()}
SEEDS = {"keyed": 1, "compound": 2, "keyless": 3}
BASE = {
    "id": Column("integer", nullable=False),
    "part": Column("string", nullable=False),
    "n": Column("integer", nullable=False),
}
KEYED = ["keyed", pytest.param("keyless", marks=pytest.mark.variant)]
"""Of histories told below; without a key there are random ones, erasures, and changes by people."""
Lines: TypeAlias = tuple[int, int]
WORDS = ["", "a", 'q"\\`.', "é\n\t\x01🙂", "1"]
KEYS = [Key(), Key()]
LARGE = 2**53 + 1
"""Not a double."""

lines = st.tuples(st.integers(0, 12), st.integers(0, 2**32))
"""How many lines, and what they are made of: so that a history shrinks to few short syncs."""


def value_of(column: Column, number: int) -> Any:
    """One of few values of a column, so that some come again."""
    if number == 0 and column.nullable:
        return None
    match column.type:
        case "integer":
            return LARGE if number == 5 else 2.0 if number == 4 else number
        case "number":
            return [0, -0.0, 0.5, 1e21, 2, LARGE - 1.0][number]
        case _:
            return WORDS[number % len(WORDS)]


class History(RuleBasedStateMachine):
    """Every rule is a thing that users do. What they know of the table is ``self.schema``."""

    spark: SparkSession
    keys: tuple[str, ...]

    @initialize(
        messages=lines.filter(any),  # not the history of nothing, which is always first
        large=st.booleans(),
    )
    def begin(self, messages: Lines, large: bool) -> None:
        # As if these few rows were many: several tasks for a table, layers on its indexes.
        self.as_large = pytest.MonkeyPatch()
        if large:
            self.as_large.setattr(block_tasks, "_WORTHWHILE", 1)
            self.as_large.setattr(spark_engine, "CARRIED_BYTES", 0)
            self.as_large.setattr(building, "LEAST_ROWS", 2)
            self.as_large.setattr(building, "SHARE", 1)
            self.as_large.setattr(requested_rows, "SMALL", Work())
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(self.spark, Path(self.folder.name), often=True)
        self.schema = Schema(BASE, self.keys)
        self.highest: dict[str, int] = {}
        self.version = 1
        self._sync([(self.schema, messages)], 3)

    @rule(messages=lines, block_rows=st.integers(1, 5))
    def sync(self, messages: Lines, block_rows: int) -> None:
        self._sync([(self.schema, messages)], block_rows)

    @rule(messages=lines)
    def full_table(self, messages: Lines) -> None:
        """As a tap that reads a whole table does: rows of a new version, then its activation."""
        self.version += 1
        rows = [m for m in self._messages(messages, self.schema) if not isinstance(m, int)]
        latest = [(m if isinstance(m, dict) else m[0], self.version) for m in rows]
        self.world.sync((self.schema, [*latest, self.version]), block_rows=4)

    @rule(
        name=st.sampled_from(["x", "y"]),
        higher=st.integers(0, 2),
        nullable=st.booleans(),
        before=lines,
        messages=lines,
    )
    def add_column(
        self, name: str, higher: int, nullable: bool, before: Lines, messages: Lines
    ) -> None:
        """A new column, or one of an old name: what it had been can become what it is now."""
        kind = LADDER[max(higher, self.highest.get(name, 0))]
        self._change({**self.schema.columns, name: Column(kind, nullable)}, before, messages)

    @rule(name=st.sampled_from(["x", "y"]), messages=lines)
    def remove_column(self, name: str, messages: Lines) -> None:
        columns = {n: column for n, column in self.schema.columns.items() if n != name}
        self._change(columns, (0, 0), messages)

    @rule(name=st.sampled_from(["n", "x", "y"]), before=lines, messages=lines)
    def widen(self, name: str, before: Lines, messages: Lines) -> None:
        if name in self.schema.columns:
            old = self.schema.columns[name]
            kind = LADDER[min(LADDER.index(old.type) + 1, 2)]
            self._change({**self.schema.columns, name: old._replace(type=kind)}, before, messages)

    @rule(name=st.sampled_from(["n", "x", "y"]), messages=lines)
    def make_nullable(self, name: str, messages: Lines) -> None:
        if name in self.schema.columns:
            column = self.schema.columns[name]._replace(nullable=True)
            self._change({**self.schema.columns, name: column}, (0, 0), messages)

    @rule(keys=st.sampled_from(list(KINDS.values())), messages=lines)
    # By a key that comes after history was dropped, rows that went would have been alive.
    @precondition(lambda self: self.world.model.head > 5 and not self.world.model.floor)
    def change_keys(self, keys: tuple[str, ...], messages: Lines) -> None:
        self.schema = Schema(self.schema.columns, keys)
        self._sync([(self.schema, messages)], 3)

    @rule(label=st.booleans(), data=st.data())
    def freeze(self, label: bool, data: st.DataObject) -> None:
        model = self.world.model
        at = data.draw(st.none() | st.sampled_from(model.readables()), "at")
        self.world.freeze(at, f"label {model.head}" if label else None)

    @rule(data=st.data())
    @precondition(lambda self: self.world.model.versions)
    def point(self, data: st.DataObject) -> None:
        versions = sorted(self.world.model.versions)
        names = [None] * bool(self.world.model.pointers)
        number = data.draw(st.sampled_from([*versions, *names]), "version or none")
        known = sorted(self.world.model.pointers) if number is None else ["current", "stable"]
        self.world.point(data.draw(st.sampled_from(known), "pointer"), number)

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    @precondition(lambda self: self.world.model.versions)
    def sign(self, data: st.DataObject, key: Key) -> None:
        versions = sorted(self.world.model.versions)
        self.world.sign(data.draw(st.sampled_from(versions), "version"), key)

    @rule(data=st.data())
    @precondition(lambda self: self.world.model.versions)
    def delete_version(self, data: st.DataObject) -> None:
        versions = sorted(self.world.model.versions)
        self.world.delete_version(data.draw(st.sampled_from(versions), "version"))

    @rule(data=st.data(), follow=st.booleans())
    def revert(self, data: st.DataObject, follow: bool) -> None:
        """To a version or another transaction; the tap may know of it or not."""
        model = self.world.model
        wanted = st.sampled_from(model.readables())
        if model.versions:
            wanted |= st.sampled_from(sorted(model.versions.values()))
        self.world.revert(data.draw(wanted, "to"))
        if follow:
            self.schema = model.schema(model.head)

    @rule(data=st.data(), mode=st.sampled_from(list(OnConflict)))
    @precondition(lambda self: not self.world.rekeyed)
    def undo(self, data: st.DataObject, mode: OnConflict) -> None:
        """Of one transaction, and later ones stay."""
        model = self.world.model
        found = [n for n in range(1, model.head + 1) if model.can_be_undone(n)]
        if found:
            self.world.undo(data.draw(st.sampled_from(found), "transaction"), mode)
            self.schema = model.schema(model.head)

    @rule(data=st.data(), rows=st.integers(1, 3), dropped=st.booleans())
    @precondition(lambda self: not self.world.rekeyed)
    def erase(self, data: st.DataObject, rows: int, dropped: bool) -> None:
        """Rows that were ever there, or perhaps never; of a table that is there, or is dropped."""
        chance = random.Random(data.draw(st.integers(0, 2**32), "which"))
        schema = self.world.model.schema(self.world.model.head)

        def those() -> None:
            if schema.keys:
                self.world.erase(*{self._key(chance, schema) for _ in range(rows)})
            else:
                self.world.erase_lines(chance.randint(1, 8))

        if dropped:
            self.world.drop_and_bring_back(those)
        else:
            those()

    @rule()
    def drop_and_bring_back(self) -> None:
        self.world.drop_and_bring_back()

    @rule(asked=lines, gone=st.integers(0, 3), all_rows=st.sampled_from([False, False, True]))
    # What a dropped history left of a table with another key is not the model's.
    @precondition(lambda self: not (self.world.rekeyed and self.world.model.floor))
    def change(self, asked: Lines, gone: int, all_rows: bool) -> None:
        """Rows inserted, changed and deleted by a person."""
        model = self.world.model
        schema = model.schema(model.head)
        chance = random.Random(asked[1])
        if not schema.keys:
            rows = model.state(model.head)
            some = chance.sample(rows, min(len(rows), gone + asked[0] // 4))
            by_id = [
                (row, None if n < gone else self._cells(chance, schema))
                for n, row in enumerate(some)
            ]
            inserted = [self._new_cells(chance, schema) for _ in range(asked[0] // 4)]
            return self.world.change_by_id(inserted, by_id)
        rows_by_key = {}
        for _ in range(asked[0]):
            rows_by_key[self._key(chance, schema)] = self._cells(chance, schema)
        deleted = {self._key(chance, schema) for _ in range(gone)} - rows_by_key.keys()
        deleted = set() if all_rows else deleted
        return self.world.change(Asked(rows_by_key, tuple(sorted(deleted)), all_rows))

    @rule(data=st.data(), syncs=st.lists(lines, max_size=1))
    def revert_of_a_revert(self, data: st.DataObject, syncs: list[Lines]) -> None:
        model = self.world.model
        moved_on = model.head
        self.world.revert(data.draw(st.sampled_from(model.readables()), "to"))
        for messages in syncs:
            self._sync([(self.schema, messages)], 3)
        self.world.revert(moved_on)

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """At any state by any name, or from behind the tap."""
        model = self.world.model
        how = data.draw(st.sampled_from(["downstream", "time", "name", "name"]), "how")
        if how == "downstream":
            return self.world.read_downstream()
        if how == "time":
            at = st.integers(max(1, model.floor), model.head)
            return self.world.query_time(data.draw(at, "at"))
        names = [("tap.s", model.head)]
        for number, at in model.versions.items():
            names += [(f"tap.s.{number}", at), (f"tap.s VERSION AS OF {number}", at)]
        for label, at in model.labels.items():
            names += [(f"tap.s.`{label}`", at), (f"tap.s VERSION AS OF '{label}'", at)]
        return self.world.query(*data.draw(st.sampled_from(names), "table"))

    @rule(
        parts=st.sampled_from([("combine", "delete"), ("drop-history",), ("combine",), PARTS]),
        target_file_bytes=st.sampled_from([1, 900, 1 << 20]),
    )
    def vacuum(self, parts: tuple[str, ...], target_file_bytes: int) -> None:
        self.world.vacuum(*parts, target_file_bytes=target_file_bytes)

    @rule(data=st.data())
    def lose_something(self, data: st.DataObject) -> None:
        """None of it is the truth."""
        world = self.world
        at = data.draw(st.none() | st.integers(1, world.model.head), "index")
        world.drop_index(at)
        if data.draw(st.booleans(), "manifest"):
            world.drop_manifest()
        if data.draw(st.booleans(), "rebuild"):
            world.rebuild()

    @invariant()
    def in_step(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                if sys.exc_info()[0] is None:  # neither failed already nor given up by hypothesis
                    self.world.check_end()
            finally:
                self.as_large.undo()
                self.folder.cleanup()

    def _change(self, columns: dict[str, Column], before: Lines, messages: Lines) -> None:
        """The schema changes within a run, or with it where there is nothing before."""
        old, self.schema = self.schema, Schema(columns, self.schema.keys)
        parts = [(old, before)] if before[0] else []
        self._sync([*parts, (self.schema, messages)], 3)

    def _sync(self, parts: list[tuple[Schema, Lines]], block_rows: int) -> None:
        for schema, _ in parts:
            for name, column in schema.columns.items():
                kind = LADDER.index(column.type)
                self.highest[name] = max(kind, self.highest.get(name, 0))
        made = [(schema, self._messages(some, schema)) for schema, some in parts]
        self.world.sync(*made, block_rows=block_rows)

    def _key(self, chance: random.Random, schema: Schema) -> tuple[Any, ...]:
        values = {"id": chance.randint(1, 8), "part": chance.choice("ab")}
        return tuple(values[name] for name in schema.keys)

    def _cells(self, chance: random.Random, schema: Schema) -> dict[str, Any]:
        """Of some columns, each in its own type."""
        named = [name for name in schema.columns if name not in ("id", "part")]
        some = chance.sample(named, chance.randint(0, len(named)))
        return {name: self._cell(chance, schema.columns[name]) for name in some}

    def _new_cells(self, chance: random.Random, schema: Schema) -> dict[str, Any]:
        return {"id": chance.randint(1, 8), "part": "a", **self._cells(chance, schema)}

    def _cell(self, chance: random.Random, column: Column) -> Any:
        value = value_of(column, chance.randint(0, 5))
        if value is None:
            return None
        return {"integer": int, "number": float, "string": str}[column.type](value)

    def _messages(self, drawn: tuple[int, int], schema: Schema) -> list[Message]:
        chance = random.Random(drawn[1])
        return [self._message(chance, schema) for _ in range(drawn[0])]

    def _message(self, chance: random.Random, schema: Schema) -> Message:
        if chance.random() < 0.04:
            return chance.choice([1, self.version])
        record = {"id": chance.randint(1, 6), "part": chance.choice("ab")}
        for name, column in schema.columns.items():
            if name not in record and (not column.nullable or chance.random() < 0.7):
                record[name] = value_of(column, chance.randint(0, 5))
        if chance.random() < 0.25:
            # Null is there and deletes nothing.
            record[DELETED] = chance.choice([None, "2026-02-01T00:00:00Z", ""])
        if chance.random() < 0.1:
            return record
        return record, self.version if chance.random() < 0.9 else 1


@pytest.mark.parametrize(
    "kind", ["keyed", pytest.param("compound", marks=pytest.mark.variant), "keyless"]
)
def test_random_histories(spark: SparkSession, kind: str) -> None:
    class Machine(History):
        keys = KINDS[kind]

    Machine.spark = spark
    long = EXAMPLES > 0
    run_state_machine_as_test(
        Machine if long else seed(SEEDS[kind])(Machine),
        settings=settings(
            max_examples=EXAMPLES or 1,
            stateful_step_count=20 if long else 10,
            database=None,
            deadline=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate, Phase.shrink] if long else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def schema_of(kind: str, **more: str) -> Schema:
    """The base columns and some more, or with other types."""
    return Schema({**BASE, **{n: Column(type_) for n, type_ in more.items()}}, KINDS[kind])


def row(id_: int, n: Any = 1, part: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": id_, "part": part, "n": n, **more}


@pytest.mark.parametrize("kind", [*KEYED, pytest.param("compound", marks=pytest.mark.variant)])
def test_back_and_forth(world: World, kind: str) -> None:
    """Every kind of step once, in an order that random histories take too seldom."""
    plain, more = schema_of(kind), schema_of(kind, x="integer")
    world.sync((plain, [row(9), (row(8), 2), 1, row(1), (row(2, LARGE), 1), (row(2, 5), 1)]))
    world.query("tap.s", 1)
    world.sync((plain, [(row(n, n % 4), 1) for n in range(1, 7)]))
    first = world.freeze(label="first")
    world.read_downstream()
    gone = row(4, **{DELETED: "2026-02-01T00:00:00Z"})
    world.sync((plain, [row(10), gone]), (more, [row(1, 5, x=7), row(6, 2, x=3), row(11)]))
    world.query("tap.s", 4)
    world.sync((more, [(row(5, 1), 1), row(12), (row(1, 3), 1)]))
    second = world.freeze()
    world.check()
    world.revert(first.transaction)  # 1, 4, 5 and 6 come back; 10, 11 and 12 go
    world.check()
    world.read_downstream()
    world.drop_index(second.transaction)
    world.revert(second.transaction)
    world.read_downstream()
    world.sync((plain, [(row(7), 1), row(13)]))
    world.drop_manifest()
    world.rebuild()
    world.query("tap.s VERSION AS OF 'first'", first.transaction)
    world.query_time(3)
    world.sync((plain, [1, (row(14), 1)]))  # what a revert wrote is not all of this version
    world.freeze(at=4)
    world.check()
    world.check_end()


@pytest.mark.parametrize(
    "kind",
    ["compound", *(pytest.param(one, marks=pytest.mark.variant) for one in ("keyed", "keyless"))],
)
def test_vacuum_between_all_the_others(world: World, kind: str) -> None:
    plain, more = schema_of(kind), schema_of(kind, x="integer")
    world.sync((plain, [row(9), (row(8), 2), 1, row(1), (row(2, 3), 1), (row(2, 5), 1)]))
    world.sync((plain, [(row(n, n % 4), 1) for n in range(1, 7)]), block_rows=2)
    world.read_downstream()
    world.sync((plain, [(row(n, n % 3), 1) for n in range(2, 5)]))
    first = world.freeze(label="first")
    world.sync((plain, [(row(n, 5), 1) for n in range(1, 4)]), (more, [row(1, 5, x=7), row(11)]))
    world.sync((more, [(row(1, 1, x=1), 1), row(4, **{DELETED: "2026-02-01T00:00:00Z"})]))
    world.vacuum("combine", "delete")
    world.check()
    world.read_downstream()
    world.sync((more, [(row(n, 2), 3) for n in range(3, 8)] + [3]))
    world.sync((more, [(row(3, 1), 3), (row(3, 2), 3)]))
    world.vacuum("drop-history")
    world.check()
    world.read_downstream()
    world.revert(first.transaction)
    world.check()
    second = world.freeze()
    world.delete_version(first.number)
    world.check()
    world.sync((more, [(row(n, 4), 3) for n in range(1, 4)]))
    world.sync((more, [(row(n, 1, x=n), 3) for n in range(1, 4)]))
    world.vacuum(*PARTS)
    world.drop_manifest()
    world.rebuild()
    world.check()
    world.revert(second.transaction)
    world.read_downstream()
    world.vacuum(*PARTS)
    world.check()
    world.check_end()


def test_erasing_between_all_the_others(world: World) -> None:
    """Beneath versions that were there before and come after, and whatever a vacuum has done."""
    plain, more = schema_of("compound"), schema_of("compound", x="integer")

    def erase(number: int) -> None:
        world.erase((number, "a"))
        world.check()

    world.sync((plain, [row(9), (row(8), 2), 1, (row(1), 1), (row(2, 3), 1), row(2, 5)]))
    world.sync((plain, [(row(n, n % 4), 1) for n in range(1, 6)]), block_rows=2)
    first = world.freeze(label="first")
    world.query("tap.s", world.model.head)
    world.read_downstream()
    gone = row(2, **{DELETED: "2026-02-01T00:00:00Z"})
    world.sync((plain, [gone, row(7)]), (more, [row(1, 5, x=7), row(11)]))
    world.vacuum("combine")
    second = world.freeze()
    world.sign(first.number, KEYS[0])
    world.sign(second.number, KEYS[0])
    erase(2)
    world.sign(first.number, KEYS[1])
    world.undo(4, OnConflict.KEEP)
    world.read_downstream()
    world.revert(first.transaction)
    world.drop_and_bring_back(lambda: world.erase((1, "a")))
    world.check()
    world.sync((more, [row(2, 6, x=1), row(12)]))  # she comes again
    world.delete_version(second.number)
    world.vacuum("drop-history")
    erase(12)
    world.vacuum(*PARTS)
    world.sign(first.number, KEYS[0])
    world.drop_manifest()
    world.rebuild()
    erase(2)
    world.read_downstream()
    world.check_end()


def test_erasing_lines_of_a_table_without_a_key(world: World) -> None:
    """By a condition: what single lines said is nowhere, and all others keep their places."""
    plain, more = schema_of("keyless"), schema_of("keyless", x="integer")

    def erase(number: int) -> None:
        world.erase_lines(number)
        world.check()

    world.sync((plain, [row(9), (row(8), 2), 1, (row(1), 1), (row(2, 3), 1), (row(2, 5), 1)]))
    world.sync((plain, [(row(n, n % 4), 1) for n in range(1, 6)]), block_rows=2)
    first = world.freeze(label="first")
    world.read_downstream()
    world.sync((plain, [(row(7), 1)]), (more, [(row(1, 5, x=7), 1), (row(2, 6), 1)]))
    world.vacuum("combine")
    second = world.freeze()
    erase(2)
    world.read_downstream()
    world.revert(first.transaction)  # which writes the rest anew
    world.drop_and_bring_back(lambda: world.erase_lines(1))
    world.check()
    world.sync((more, [row(2, 6, x=1), row(12)]))
    world.delete_version(second.number)
    world.vacuum("drop-history")
    erase(12)
    world.drop_manifest()
    world.rebuild()
    erase(2)
    world.check_end()


def test_changes_by_people_between_all_the_others(world: World) -> None:
    plain, more = schema_of("keyed"), schema_of("keyed", n="number", x="integer")
    world.sync((plain, [row(9), (row(8), 2), 1, (row(1, LARGE), 1), (row(2, 2.0), 1), row(3)]))
    first = world.freeze()
    world.change(Asked({(1,): {"n": LARGE}, (2,): {"part": 'q"'}, (4,): {"n": 4}}, ((8,), (3,))))
    world.read_downstream()
    hidden = (row(5, x=9), 1)  # of which nobody knows yet, and which nobody may see later
    world.sync((plain, [hidden, 1]), (more, [row(6, 0.5, x=7), row(7, 1, x=1)]))
    world.change(Asked({(1,): {"x": 1}, (5,): {"n": None}, (6,): {"n": 0.5, "x": None}}, ((7,),)))
    second = world.freeze()
    world.read_downstream()
    world.check()
    world.revert(first.transaction)
    world.change(Asked({(2,): {"n": 2}, (1,): {"part": "c"}}, all_rows=True))
    world.sync((more, [1, row(2, 3)]))
    world.vacuum(*PARTS)
    world.change(Asked({(2,): {"n": 5}, (1,): {"x": 4}}))
    world.drop_manifest()
    world.rebuild()
    world.check()
    world.revert(second.transaction)
    world.read_downstream()
    world.check_end()


@pytest.mark.parametrize("kind", KEYED)
def test_undoing_between_all_the_others(world: World, kind: str) -> None:
    plain, more = schema_of(kind), schema_of(kind, x="integer")
    world.sync((plain, [row(1), row(2), row(3)]))
    world.sync((plain, [row(1, 2), row(4, LARGE), row(2, **{DELETED: "2026-02-01T00:00:00Z"})]))
    first = world.freeze()
    world.sync((plain, [row(1, 3), row(5)]))
    world.undo(2, OnConflict.FAIL)  # row 1 was touched again, if it has a key
    if kind != "keyless":  # which is written anew by then
        world.undo(2, OnConflict.KEEP)
    world.check()
    world.read_downstream()
    world.sync((more, [row(6, 1, x=7), row(3, 2, x=1)]))
    world.undo(world.model.head, OnConflict.FAIL)  # and its column goes
    world.check()
    world.read_downstream()
    if kind != "keyless":
        world.undo(4, OnConflict.UNDO)
        world.undo(1, OnConflict.UNDO)
    world.sync((more, [row(7, 1, x=7), (row(8, 2, x=1), 3), 3]))
    world.undo(world.model.head, OnConflict.FAIL)  # what it removed comes back
    world.read_downstream()
    world.delete_version(first.number)
    world.vacuum(*PARTS)
    world.sync((more, [row(1, 4), row(9)]))
    world.undo(world.model.head, OnConflict.FAIL)
    world.drop_manifest()
    world.rebuild()
    world.check()
    world.check_end()


def test_changes_by_people_without_a_key(world: World) -> None:
    plain, more = schema_of("keyless"), schema_of("keyless", n="number", x="integer")
    world.sync((plain, [(row(1), 1), (row(1), 1), row(2, LARGE), 1, (row(3), 1), row(4)]))
    world.change_by_id([row(5), {"id": 6, "part": "a"}], [])
    world.read_downstream()
    first = world.freeze()
    rows = world.model.state(world.model.head)
    world.change_by_id([row(7)], [(rows[0], None), (rows[1], {"part": "b"}), (rows[2], {"n": 1})])
    world.read_downstream()
    world.sync((more, [row(8, 0.5, x=7)]))
    rows = world.model.state(world.model.head)
    world.change_by_id([], [(rows[0], {"x": 1}), (rows[-1], {"x": 7})])
    world.check()
    world.vacuum("combine", "delete")
    world.revert(first.transaction)
    world.read_downstream()
    world.check_end()


def test_back_to_where_later_rows_cannot_be_read(world: World) -> None:
    plain = schema_of("keyed", x="integer")
    named = schema_of("keyed", n="string", x="number")
    world.sync((plain, [row(1, LARGE, x=1), (row(2), 1), row(3)]))
    first = world.freeze()
    world.sync(
        (
            named,
            [row(1, "one", x=0.5), row(4, "4"), row(3, "3", **{DELETED: AT})],
        )
    )
    second = world.freeze()
    world.read_downstream()
    world.revert(first.transaction)
    world.read_downstream()
    world.sync((plain, [row(5), row(2, 7)]))
    world.check()
    world.revert(second.transaction)
    world.sync((named, [1, row(6, "six", x=2)]))
    world.sync((schema_of("keyed", n="string", y="integer"), []))
    world.query("tap.s", world.model.head)  # by an index of its own, for its schema is another
    world.revert(world.model.head - 1)
    world.check()
    world.check_end()


def test_the_model_knows_the_published_fingerprint() -> None:
    assert row_text({"name": "a", "id": 1, "none": None}) == '{"id":1,"name":"a"}'
    published = "lt1:dfd46c52a5c44eab4135beae8912228cfb4a1c843bfe5099233f8e8292c3da22"
    assert fingerprint(['{"id":1,"name":"a"}']) == published
    page = Path(__file__).parents[2] / "docs" / "internals" / "fingerprints.md"
    assert published in page.read_text("utf-8")


DUCKDB = """
    WITH lines AS (
        SELECT row_number() OVER () AS place, type, version, record
        FROM read_json({files}, format = 'newline_delimited', columns = {{
            'type': 'VARCHAR', 'version': 'BIGINT',
            'record': 'STRUCT(id BIGINT, part VARCHAR, n BIGINT, _sdc_deleted_at VARCHAR)'}})
    ),
    newest AS (
        SELECT * FROM lines WHERE type = 'RECORD'
        QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY place DESC) = 1
    )
    SELECT record.id, record.part, record.n FROM newest
    WHERE record._sdc_deleted_at IS NULL AND place > coalesce((
        SELECT max(a.place) FROM lines a
        WHERE a.type = 'ACTIVATE_VERSION' AND a.version IS DISTINCT FROM newest.version), 0)
"""


@pytest.mark.parametrize("activations", [False, True], ids=["plain", "activated"])
@pytest.mark.parametrize("kind", KINDS)
def test_duckdb_says_the_same(world: World, kind: str, activations: bool) -> None:
    """Of the same files, with nothing but SQL: deletions, compound keys, ACTIVATE_VERSION."""
    duckdb = pytest.importorskip("duckdb")
    chance = random.Random(kind)
    for base in (0, 100):
        messages: list[Message] = []
        for n in range(base, base + 100):
            record = row(chance.randint(1, 30), n, chance.choice("ab"))
            if chance.random() < 0.2:
                record[DELETED] = "2026-02-01T00:00:00Z"
            messages.append((record, chance.choice([1, 2, 2, 2])))
            if activations and n in (60, 70, 150):
                messages.append(1 if n == 60 else 2)
        world.sync((schema_of(kind), messages), block_rows=17)
    snapshot = world.table.snapshot()
    files = dict.fromkeys(str(world.folder / snapshot.table.data(b.file)) for b in snapshot.blocks)
    key = {"keyed": "record.id", "compound": "record.id, record.part", "keyless": "place"}[kind]
    theirs = duckdb.sql(DUCKDB.format(files=list(files), key=key)).fetchall()
    ours = list(query(world.spark, world.lake, "SELECT id, part, n FROM tap.s").rows())
    assert sorted(ours) == sorted(theirs)
    assert 5 < len(ours) < 180
    world.check()
