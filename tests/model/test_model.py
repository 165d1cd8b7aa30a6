"""TLC finds no fault in the protocol, and finds the one that each rule is there to prevent.

Several runs of TLC side by side would not be faster: a worker of the test suite has one core.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.checks import INVARIANTS, RULES, changes, full, lake, large, mutants, small
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
KINDS = r"""
ASSUME TLCSet(99, {})
Noted == LET known == TLCGet(99) IN
  \/ Essence \in known
  \/ TLCSet(99, known \cup {Essence}) /\ PrintT(<<"kinds", Cardinality(known) + 1>>)
===="""
"""Counts what is told apart by a view, in a run that tells all states apart."""


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
    ("Lake", lake(1, 1, 0, 0, 1)),
    ("Lake", {**lake(0, 1, 0, 1, 1), "MaxBehind": 0, "LateRequests": False}),
    ("Lake", lake(0, 0, 1, 0, 1, 1)),
    ("Changes", changes(1, 0)),
]


@pytest.mark.parametrize(("module", "constants"), ALIKE, ids=lambda value: str(value)[:7])
def test_a_view_loses_nothing(module: str, constants: dict[str, object]) -> None:
    """Where only unlike states are gone on from, as many unlike ones are found as there are."""
    text = f"---- MODULE Kinds ----\nEXTENDS {module}{KINDS}\n"
    noted = Check("all", "Kinds", constants, ("Noted",), symmetry=False)
    every = run(noted, files={"Kinds.tla": text})
    viewed = run(Check("alike", module, constants, symmetry=False, view="Essence"))
    there = max(int(n) for n in re.findall(r'"kinds", (\d+)', every.text))
    assert viewed.states == there < every.states


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
