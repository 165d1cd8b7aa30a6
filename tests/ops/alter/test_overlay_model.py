"""Random histories of a table that people alter, against a plain model (``overlay_machine.py``).

In CI a few histories, the same ones in every run. For many others:

    SINGERLAKE_EXAMPLES=200 pytest tests/ops/alter/test_overlay_model.py --hypothesis-seed=1
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from dataclasses import replace
from functools import partial
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

from singerlake.ops.vacuum.plan import PARTS
from singerlake.overlay import overlay_changes as says
from tests.histories.model_machine import LADDER
from tests.ops.alter.overlay_machine import Added, Cells, Kinds, Said, State, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = int(os.environ.get("SINGERLAKE_EXAMPLES", "0"))
KINDS = {"keyed": ("id",), "keyless": ()}
BASE = {"id": "integer", "code": "string", "n": "integer"}
NEW_NAMES = ("a", "b", "region")
"""What people call columns; the tap may send one of this name later."""
seeds = st.integers(0, 2**32)


def there(machine: History) -> bool:
    return not machine.world.head.dropped


def with_spark(machine: History) -> bool:
    return machine.spark is not None and there(machine)


class History(RuleBasedStateMachine):
    """Every rule is a thing that the tap or people do. Without a session, what needs none."""

    spark: SparkSession | None
    keys: tuple[str, ...]

    @initialize(chance=seeds.filter(bool))  # not the simplest history, which is always first
    def begin(self, chance: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.tap: Kinds = BASE
        self.world = World(Path(self.folder.name), BASE, self.keys, self.spark)
        self.sync(chance, 5)

    # The tap

    @rule(chance=seeds, count=st.integers(1, 6))
    def sync(self, chance: int, count: int) -> None:
        pick = random.Random(chance)
        records = [self._record(pick) for _ in range(count)]
        # A target refuses rows that its table's key does not tell apart, or that lack it.
        gone = [self._record(pick) for _ in range(pick.choice([0, 0, 1]))]
        self.world.sync(self.tap, records, gone)

    @rule(name=st.sampled_from(["x", "region"]), kind=st.sampled_from(["integer", "string"]))
    @precondition(there)
    def the_tap_adds(self, name: str, kind: str) -> None:
        added = self.world.head.said.added.get(name)
        kind = added.kind if added else "string" if name == "region" else kind
        known = [state.tap[name] for state in self.world.states if name in state.tap]
        kind = max([kind, *known], key=LADDER.index)
        if name not in self.world.head.said.kinds:
            self.tap = {**self.tap, name: kind}
        self.sync(1, 2)

    @rule(name=st.sampled_from(["x", "region"]))
    @precondition(there)
    def the_tap_drops(self, name: str) -> None:
        said = self.world.head.said
        used = {*self.world.head.keys, *said.ranges.values()}
        if said.names.get(name, name) not in used:
            self.tap = {member: kind for member, kind in self.tap.items() if member != name}
        self.sync(2, 2)

    @rule()
    @precondition(there)
    def the_tap_widens(self) -> None:
        said = self.world.head.said
        if "n" not in said.kinds and said.names.get("n", "n") not in said.ranges.values():
            self.tap = {**self.tap, "n": LADDER[min(LADDER.index(self.tap["n"]) + 1, 2)]}
        self.sync(3, 3)

    # People, without a look at the rows

    @rule(name=st.sampled_from(NEW_NAMES), kind=st.sampled_from(LADDER), chance=seeds)
    @precondition(there)
    def add_column(self, name: str, kind: str, chance: int) -> None:
        head, pick = self.world.head, random.Random(chance)
        if name in head.columns or name in {*head.tap, *head.said.added, *self._said_of()}:
            return
        default, initial = (self._value(pick, kind) for _ in range(2))
        schema = {"type": ["null", kind]}
        change = partial(says.with_column, name=name, schema=schema, default=default)
        first = self.world.number + 1
        column = Added(kind, ((0, initial), (first, default)))
        said = replace(head.said, added={**head.said.added, name: column})
        self.world.say(partial(change, initial=initial), said)

    @rule(chance=seeds)
    @precondition(there)
    def drop_column(self, chance: int) -> None:
        head = self.world.head
        used = {*head.keys, *head.said.ranges.values()}
        choices = [n for n, (m, _) in head.columns.items() if n not in used and m != "id"]
        if (name := self._one_of(choices, chance)) is None:
            return
        member, said = head.columns[name][0], self._without(head.columns[name][0])
        if member in head.tap:
            said = replace(said, dropped=said.dropped | {member})
        self.world.say(partial(says.without_column, name=name), said)

    @rule(chance=seeds)
    @precondition(there)
    def restore_column(self, chance: int) -> None:
        head = self.world.head
        dropped = [m for m in head.said.dropped if m not in head.columns]
        if (name := self._one_of(sorted(dropped), chance)) is not None:
            said = replace(head.said, dropped=head.said.dropped - {name})
            self.world.say(partial(says.with_restored, name=name), said)

    @rule(new=st.sampled_from(NEW_NAMES), chance=seeds, back=st.booleans())
    @precondition(there)
    def rename_column(self, new: str, chance: int, back: bool) -> None:
        head = self.world.head
        name = self._one_of([*head.columns], chance)
        assert name is not None
        member = head.columns[name][0]
        new = member if back else new
        taken = {*head.columns, *head.tap, *head.said.added, *self._said_of()} - {member}
        if new in taken or (new == member and new in head.columns):
            return
        said = head.said
        names = {m: n for m, n in said.names.items() if m != member}
        names |= {} if new == member else {member: new}
        key = said.key and tuple(new if one == name else one for one in said.key)
        ranges = {n: new if one == name else one for n, one in said.ranges.items()}
        said = replace(said, names=names, key=key, ranges=ranges)
        self.world.say(partial(says.with_name, name=name, new=new), said)

    @rule(chance=seeds)
    @precondition(there)
    def retype_up(self, chance: int) -> None:
        """To a type that all values can become."""
        head = self.world.head
        used = {*head.keys, *head.said.ranges.values()}
        name = self._one_of([n for n in head.columns if n not in used], chance)
        if name is None:
            return
        member, kind = head.columns[name]
        if self._has_default(member) or kind == "string":
            return
        new = LADDER[LADDER.index(kind) + 1]
        self._retype(name, new, rows=False)

    @rule(chance=seeds)
    @precondition(there)
    def set_default(self, chance: int) -> None:
        head, pick = self.world.head, random.Random(chance)
        name = self._one_of([n for n in head.columns if n not in head.keys], chance)
        if name is None:
            return
        member, kind = head.columns[name]
        value = self._value(pick, kind) if name not in head.said.ranges.values() else None
        if member == "id" and value is None:
            return  # refused: the tap says that it is never null
        change = partial(says.with_default, name=name, default=value)
        said = head.said
        if (added := said.added.get(member)) is None:
            self.world.say(change, replace(said, defaults={**said.defaults, member: value}))
            return
        if added.defaults[-1][1] != value:
            defaults = (*added.defaults, (self.world.number + 1, value))
            added = added._replace(defaults=defaults)
        self.world.say(change, replace(said, added={**said.added, member: added}))

    @rule()
    @precondition(lambda self: self.world.head.said.ranges and there(self))
    def drop_constraint(self) -> None:
        said = self.world.head.said
        name = sorted(said.ranges)[0]
        ranges = {n: column for n, column in said.ranges.items() if n != name}
        change = partial(says.without_constraint, name=name)
        self.world.say(change, replace(said, ranges=ranges))

    # People, where rows are looked at

    @rule(chance=seeds)
    @precondition(there)
    def set_key(self, chance: int) -> None:
        head = self.world.head
        known = {column for state in self.world.states[-1:] for column in state.columns}
        names = {member: name for name, (member, _) in head.columns.items()}
        choices = [(names[m],) for m in ("id", "code") if m in names]
        if {"id", "code"} <= names.keys():
            choices.append((names["id"], names["code"]))
        self.world.set_key(random.Random(chance).choice([c for c in choices if {*c} <= known]))

    @rule()
    @precondition(there)
    def retype_by_its_values(self) -> None:
        """The codes are digits."""
        head = self.world.head
        name = next((n for n, (m, k) in head.columns.items() if (m, k) == ("code", "string")), None)
        if name is None or name in head.keys or self._has_default("code"):
            return
        self._retype(name, "integer", rows=True)

    @rule(chance=seeds)
    @precondition(with_spark)
    def add_constraint(self, chance: int) -> None:
        head = self.world.head
        taken = {*head.keys, *head.said.ranges.values()}
        columns = [
            name
            for name, (member, kind) in head.columns.items()
            if kind != "string" and name not in taken and not self._has_default(member)
        ]
        name = self._one_of(columns, chance)
        if name is not None and f"range of {name}" not in head.said.ranges:
            self.world.add_range(name)

    @rule(chance=seeds)
    @precondition(lambda self: there(self) and self.world.head.keys)
    def change(self, chance: int) -> None:
        head, pick = self.world.head, random.Random(chance)
        wanted = {self._key(pick): self._cells(pick) for _ in range(pick.randint(0, 4))}
        gone = {self._key(pick) for _ in range(pick.randint(0, 2))} - wanted.keys()
        assert None not in head.keys
        self.world.change(wanted, sorted(gone, key=repr))

    @rule(chance=seeds)
    # Rows of before a constraint need not keep it.
    @precondition(lambda self: with_spark(self) and not self.world.head.said.ranges)
    def revert(self, chance: int) -> None:
        world = self.world
        choices = [at for at in range(world.begun, world.number + 1) if world.readable(at)]
        to = random.Random(chance).choice(choices)
        # What a column holds must fit what people say of it now.
        if all(self._fits_now(world.states[to], member) for member in world.head.said.kinds):
            world.revert(to)
            self.tap = world.head.tap

    @rule()
    @precondition(there)
    def freeze(self) -> None:
        self.world.freeze()

    @rule(parts=st.sampled_from([("combine", "delete"), ("drop-history",), PARTS]))
    def vacuum(self, parts: tuple[str, ...]) -> None:
        self.world.vacuum(*parts)

    # Both

    @rule(vacuum=st.booleans(), anew=st.booleans())
    @precondition(there)
    def drop(self, vacuum: bool, anew: bool) -> None:
        self.world.drop()
        self.world.check()
        if vacuum:
            self.world.vacuum("delete")
        if not anew:
            self.world.undrop()
        if self.world.head.dropped:
            self.tap = BASE
            self.sync(4, 3)

    @rule(index=st.booleans(), rebuild=st.booleans())
    def lose_something(self, index: bool, rebuild: bool) -> None:
        self.world.lose(index=index, rebuild=rebuild)

    @rule()
    @precondition(there)
    def read_downstream(self) -> None:
        self.world.read_downstream()

    @invariant()
    def in_step(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                if sys.exc_info()[0] is None:
                    self.world.check_end()
            finally:
                self.folder.cleanup()

    # What they choose from

    def _said_of(self) -> set[str]:
        said = self.world.head.said
        return {*said.names, *said.kinds, *said.dropped, *said.defaults}

    def _without(self, member: str) -> Said:
        """What is said, but for one column."""
        said = self.world.head.said

        def rest(of: Any) -> Any:
            return {m: one for m, one in of.items() if m != member}

        return replace(
            said,
            names=rest(said.names),
            kinds=rest(said.kinds),
            added=rest(said.added),
            defaults=rest(said.defaults),
        )

    def _retype(self, name: str, new: str, *, rows: bool) -> None:
        head = self.world.head
        member, said = head.columns[name][0], head.said
        if (added := said.added.get(member)) is not None:
            said = replace(said, added={**said.added, member: added._replace(kind=new)})
        said = replace(said, kinds={**said.kinds, member: new})
        change = partial(says.with_type, name=name, schema={"type": ["null", new]})
        self.world.say(change, said, rows=rows)

    def _has_default(self, member: str) -> bool:
        said = self.world.head.said
        added = said.added.get(member)
        values = [value for _, value in added.defaults] if added else [said.defaults.get(member)]
        return any(value is not None for value in values)

    def _fits_now(self, state: State, member: str) -> bool:
        kind = state.tap.get(member, "integer")
        return LADDER.index(kind) <= LADDER.index(self.world.head.said.kinds[member]) or (
            member == "code"
        )

    def _one_of(self, names: list[str], chance: int) -> str | None:
        return random.Random(chance).choice(names) if names else None

    def _value(self, pick: random.Random, kind: str) -> Any:
        if pick.random() < 0.3:
            return None
        return {"integer": pick.randint(0, 5), "number": pick.choice([0.5, 1.0, 4.25])}.get(
            kind, str(pick.randint(1, 9))
        )

    def _record(self, pick: random.Random) -> Cells:
        """What the tap sends; the code is there where people made it the key."""
        record: Cells = {"id": pick.randint(1, 6), "code": str(pick.randint(1, 9))}
        key = {self.world.head.columns[n][0] for n in self.world.head.keys if there(self)}
        if "code" not in key and pick.random() < 0.2:
            del record["code"]
        for name, kind in self.tap.items():
            if name not in ("id", "code") and pick.random() < 0.7:
                record[name] = self._value(pick, kind)
        return record

    def _key(self, pick: random.Random) -> tuple[Any, ...]:
        columns = self.world.head.columns
        values = {"id": pick.randint(1, 7), "code": pick.randint(1, 9)}
        kinds = {"integer": int, "number": float, "string": str}
        found = ((columns[name][1], values[columns[name][0]]) for name in self.world.head.keys)
        return tuple(kinds[kind](value) for kind, value in found)

    def _cells(self, pick: random.Random) -> Cells:
        head = self.world.head
        own = {name: column for name, column in head.columns.items() if name not in head.keys}
        some = pick.sample([*own], pick.randint(0, len(own)))
        cells = {name: self._value(pick, own[name][1]) for name in some}
        if "id" not in {head.columns[name][0] for name in head.keys}:
            for name, (member, _) in own.items():
                if member == "id":
                    cells[name] = pick.randint(1, 7)
        for column in head.said.ranges.values():
            if column in cells and pick.random() < 0.2:
                cells[column] = -1
        return cells


def run_machine(machine: type[History], kind: str, examples: int, steps: int) -> None:
    long = EXAMPLES > 0
    run_state_machine_as_test(
        machine if long else seed(len(kind))(machine),
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=25 if long else steps,
            database=None,
            deadline=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate, Phase.shrink] if long else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.usefixtures("many_cases")
@pytest.mark.parametrize("kind", KINDS)
def test_histories_without_spark(kind: str) -> None:
    class Machine(History):
        keys = KINDS[kind]
        spark = None

    run_machine(Machine, kind, 6, 15)


@pytest.mark.parametrize("kind", KINDS)
def test_histories(spark: SparkSession, kind: str) -> None:
    class Machine(History):
        keys = KINDS[kind]

    Machine.spark = spark
    run_machine(Machine, kind, 1, 12)
