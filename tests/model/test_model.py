"""TLC finds no fault in the protocol, and finds the one that each rule is there to prevent.

Several runs of TLC side by side would not be faster: a worker of the test suite has one core.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from model.checks import INVARIANTS, RULES, full, lake, large, mutants, small
from model.tlc import Check, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "model.md").read_text("utf-8")
SURVIVORS = {"GiveWayWhenSlow", "DistrustOldLock"}
"""Rules that nothing in the model rests on; docs/model.md says why they are kept."""
ONLY_MUTANTS = {("Lake", "RSnapshotFirst"), ("Index", "MWriteLate")}
"""Actions that only the lack of a rule lets happen."""
TO_REACH = {
    what
    for module in ("Lake", "Changes")
    for what in re.findall(
        r'Reached\(\d+, "([^"]+)"', (ROOT / "model" / f"{module}.tla").read_text("utf-8")
    )
}
STEPS = r"""---- MODULE Steps ----
EXTENDS Lake
ASSUME TLCSet(98, <<>>) /\ TLCSet(99, <<>>)
Number(n, value) ==
  LET known == TLCGet(n) IN
  IF value \in DOMAIN known THEN known[value]
  ELSE LET next == Cardinality(DOMAIN known) + 1
       IN IF TLCSet(n, known @@ (value :> next)) THEN next ELSE 0
Told == [][PrintT(<<"step", Number(98, vars), Number(99, Essence),
                    Number(98, vars'), Number(99, Essence')>>)]_vars
===="""
"""Tells each step by numbers: a state, what it is by the view, and the next one's two."""
STEP = r'<<"step", (\d+), (\d+), (\d+), (\d+)>>'


@pytest.mark.parametrize("check", mutants(), ids=lambda check: f"{check.module}-{check.name}")
def test_without_a_rule_its_invariant_fails(check: Check) -> None:
    outcome = run(check)
    assert outcome.violated == check.violates, outcome.text[-2000:]


def test_the_smallest_lakes() -> None:
    """All holds, all ends, each action fires and each interesting state is reached."""
    outcomes = [run(check, count_actions=True) for check in small()]
    assert [one.text[-3000:] for one in outcomes if not one.as_expected] == []
    assert set().union(*(one.reached for one in outcomes)) == TO_REACH
    fired = {
        (one.check.module, action)
        for one in outcomes
        for action, count in one.fired.items()
        if count
    }
    never = {(one.check.module, action) for one in outcomes for action in one.fired} - fired
    assert never == ONLY_MUTANTS


ALIKE = [
    lake(1, 1, 0, 0, 1),
    {**lake(0, 1, 0, 1, 1), "MaxBehind": 0, "LateRequests": False},
    {**lake(2, 0, 0, 0, 1), "MaxBehind": 0, "LateRequests": False},
    lake(0, 0, 1, 0, 1, 1),
]


@pytest.mark.parametrize("constants", ALIKE, ids=["reader", "freezer", "writers", "drop"])
def test_states_that_a_view_takes_for_one_go_on_alike(constants: dict[str, object]) -> None:
    """Their next states are the same by the view; so none is missed where one is gone on from."""
    told = Check("all", "Steps", constants, properties=("Told",), symmetry=False)
    every = run(told, files={"Steps.tla": STEPS})
    assert every.as_expected, every.text[-2000:]
    alike: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for state, view, after, its_view in re.findall(STEP, every.text):
        alike[view][state] |= {its_view} - {view}
        alike[its_view][after] |= set()  # it may be the last one
    unlike = [set(map(frozenset, states.values())) for states in alike.values()]
    assert [ways for ways in unlike if len(ways) > 1] == []
    viewed = run(Check("alike", "Lake", constants, view="Essence"))
    assert viewed.states == len(alike) < every.states


def test_each_rule_has_a_mutant_and_each_mutant_one_rule() -> None:
    mutated = {
        (check.module, name)
        for check in mutants()
        for name in [check.name.removeprefix("without ")]
    }
    rules = {(module, rule) for module, some in RULES.items() for rule in some}
    survivors = {rule for rule in rules if rule[1] in SURVIVORS}
    twice = {("Lake", "CheckUnmoved")}  # its mutant is in History: rows are what it would cost
    # Numbers and steps, not rules.
    extra = {("Turns", "SettleTime"), ("Turns", "Held"), ("Lake", "VacuumLock")}
    assert mutated == rules - survivors - twice | extra


def test_the_page_names_what_is_checked() -> None:
    for module, names in INVARIANTS.items():
        assert f"{module}.tla" in PAGE
        assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert [check.name for check in mutants() if f"| {check.name[8:]} |" not in PAGE] == []
    assert [name for name in SURVIVORS if f"`{name}`" not in PAGE] == []


def test_actions_that_the_page_maps_are_actions() -> None:
    actions = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert len(actions) > 20
    text = {module: (ROOT / "model" / f"{module}.tla").read_text("utf-8") for module in INVARIANTS}
    assert [a for module, a in actions if f"\n{a}(" not in text[module]] == []


def test_functions_that_the_page_maps_are_functions() -> None:
    found = re.findall(r"`(singerlake/[\w/]+\.py)::(\w+(?:\.\w+)?)`", PAGE)
    assert len(found) > 20
    for path, name in found:
        text = (ROOT / path).read_text("utf-8")
        *owner, function = name.split(".")
        assert not owner or f"class {owner[0]}" in text, (path, name)
        assert re.search(rf"def {function}\b", text), (path, name)


@pytest.mark.parametrize("size", [full, large])
def test_larger_sizes_are_of_the_same_modules(size: object) -> None:
    assert {check.module for check in size()} == set(INVARIANTS)  # type: ignore[operator]
