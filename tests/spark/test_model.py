"""Random histories of a table against a plain model of it (``model_machine.py``).

In CI a few histories, the same ones in every run. For many, with Spark reading every frozen
version back after every step:

    SINGERLAKE_EXAMPLES=200 pytest tests/spark/test_model.py -k random --hypothesis-seed=1
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from tests.spark.model_machine import DELETED, LADDER, Column, Message, Schema, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
KINDS = {"keyed": ("id",), "compound": ("id", "part"), "keyless": ()}
SEEDS = {"keyed": 1, "compound": 2, "keyless": 3}
BASE = {
    "id": Column("integer", nullable=False),
    "part": Column("string", nullable=False),
    "n": Column("integer", nullable=False),
}
WORDS = ["", "a", 'q"\\`.', "é\n\t\x01🙂", "1"]
LARGE = 2**53 + 1
"""Not a double."""

changes = st.tuples(st.sampled_from(["id", "n", "x", "y"]), st.integers(0, 5))
rows = st.tuples(
    st.integers(1, 4),
    st.sampled_from(["a", "b"]),
    st.lists(changes, max_size=3),
    st.sampled_from([None, None, "now", ""]),
    st.sampled_from(["none", "latest", "latest", "odd"]),
)
lines = st.lists(st.one_of(rows, rows, rows, rows, st.sampled_from([1, 2])), max_size=9)


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

    @initialize(messages=lines)
    def begin(self, messages: list[Any]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(self.spark, Path(self.folder.name), often=EXAMPLES > 0)
        self.schema = Schema(BASE, self.keys)
        self.highest: dict[str, int] = {}
        self.version = 1
        self._sync([(self.schema, messages)], 3)

    @rule(messages=lines, block_rows=st.integers(1, 5))
    def sync(self, messages: list[Any], block_rows: int) -> None:
        self._sync([(self.schema, messages)], block_rows)

    @rule(messages=lines)
    def full_table(self, messages: list[Any]) -> None:
        """As a tap that reads a whole table does: rows of a new version, then its activation."""
        self.version += 1
        latest = [m if isinstance(m, int) else (*m[:4], "latest") for m in messages]
        rows_alone = [m for m in latest if not isinstance(m, int)]
        self._sync([(self.schema, [*rows_alone, self.version])], 4)

    @rule(
        name=st.sampled_from(["x", "y"]),
        higher=st.integers(0, 2),
        nullable=st.booleans(),
        before=lines,
        messages=lines,
    )
    def add_column(
        self, name: str, higher: int, nullable: bool, before: list[Any], messages: list[Any]
    ) -> None:
        """A new column, or one of an old name: what it had been can become what it is now."""
        kind = LADDER[max(higher, self.highest.get(name, 0))]
        self._change({**self.schema.columns, name: Column(kind, nullable)}, before, messages)

    @rule(name=st.sampled_from(["x", "y"]), messages=lines)
    def remove_column(self, name: str, messages: list[Any]) -> None:
        columns = {n: column for n, column in self.schema.columns.items() if n != name}
        self._change(columns, [], messages)

    @rule(name=st.sampled_from(["n", "x", "y"]), before=lines, messages=lines)
    def widen(self, name: str, before: list[Any], messages: list[Any]) -> None:
        if name in self.schema.columns:
            old = self.schema.columns[name]
            kind = LADDER[min(LADDER.index(old.type) + 1, 2)]
            self._change({**self.schema.columns, name: old._replace(type=kind)}, before, messages)

    @rule(name=st.sampled_from(["n", "x", "y"]), messages=lines)
    def make_nullable(self, name: str, messages: list[Any]) -> None:
        if name in self.schema.columns:
            column = self.schema.columns[name]._replace(nullable=True)
            self._change({**self.schema.columns, name: column}, [], messages)

    @rule(keys=st.sampled_from(list(KINDS.values())), messages=lines)
    @precondition(lambda self: self.world.model.head > 5)
    def change_keys(self, keys: tuple[str, ...], messages: list[Any]) -> None:
        self.schema = Schema(self.schema.columns, keys)
        self._sync([(self.schema, messages)], 3)

    @rule(label=st.booleans(), data=st.data())
    def freeze(self, label: bool, data: st.DataObject) -> None:
        model = self.world.model
        at = data.draw(st.none() | st.integers(1, model.head), "at")
        self.world.freeze(at, f"label {len(model.labels)}" if label else None)

    @rule(data=st.data(), follow=st.booleans())
    def revert(self, data: st.DataObject, follow: bool) -> None:
        """To a version or another transaction; the tap may know of it or not."""
        model = self.world.model
        wanted = st.integers(1, model.head)
        if model.versions:
            wanted |= st.sampled_from(sorted(model.versions.values()))
        self.world.revert(data.draw(wanted, "to"))
        if follow:
            self.schema = model.schema(model.head)

    @rule(data=st.data(), syncs=st.lists(lines, max_size=1))
    def revert_of_a_revert(self, data: st.DataObject, syncs: list[Any]) -> None:
        model = self.world.model
        moved_on = model.head
        self.world.revert(data.draw(st.integers(1, model.head), "to"))
        for messages in syncs:
            self._sync([(self.schema, messages)], 3)
        self.world.revert(moved_on)

    @rule(data=st.data())
    def query(self, data: st.DataObject) -> None:
        model = self.world.model
        names = [("tap.s", model.head)]
        for number, at in model.versions.items():
            names += [(f"tap.s.{number}", at), (f"tap.s VERSION AS OF {number}", at)]
        for label, at in model.labels.items():
            names += [(f"tap.s.`{label}`", at), (f"tap.s VERSION AS OF '{label}'", at)]
        self.world.query(*data.draw(st.sampled_from(names), "table"))

    @rule(data=st.data())
    def query_time(self, data: st.DataObject) -> None:
        self.world.query_time(data.draw(st.integers(1, self.world.model.head), "at"))

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

    @rule()
    def read_downstream(self) -> None:
        self.world.read_downstream()

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
                self.folder.cleanup()

    def _change(self, columns: dict[str, Column], before: list[Any], messages: list[Any]) -> None:
        """The schema changes within a run, or with it where there is nothing before."""
        old, self.schema = self.schema, Schema(columns, self.schema.keys)
        parts = [(old, before)] if before else []
        self._sync([*parts, (self.schema, messages)], 3)

    def _sync(self, parts: list[tuple[Schema, list[Any]]], block_rows: int) -> None:
        for schema, _ in parts:
            for name, column in schema.columns.items():
                kind = LADDER.index(column.type)
                self.highest[name] = max(kind, self.highest.get(name, 0))
        made = [(schema, [self._message(m, schema) for m in some]) for schema, some in parts]
        self.world.sync(*made, block_rows=block_rows)

    def _message(self, drawn: Any, schema: Schema) -> Message:
        if isinstance(drawn, int):
            return drawn if drawn == 1 else self.version
        id_, part, values, deleted, version = drawn
        record = {"id": id_, "part": part, "n": value_of(schema.columns["n"], 1)}
        for name, number in values:
            if name in schema.columns and name != "id":
                record[name] = value_of(schema.columns[name], number)
        if deleted is not None or id_ == 3:
            record[DELETED] = deleted  # null is there and deletes nothing
        if version == "none":
            return record
        return record, self.version if version == "latest" else 1


@pytest.mark.parametrize("kind", KINDS)
def test_random_histories(spark: SparkSession, kind: str) -> None:
    class Machine(History):
        keys = KINDS[kind]

    Machine.spark = spark
    long = EXAMPLES > 0
    run_state_machine_as_test(
        Machine if long else seed(SEEDS[kind])(Machine),
        settings=settings(
            max_examples=EXAMPLES or 2,
            stateful_step_count=20 if long else 12,
            database=None,
            deadline=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate, Phase.shrink] if long else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
