"""TLC finds no fault in the protocol, and finds the one that each rule is there to prevent.

Several runs of TLC side by side would not be faster: a worker of the test suite has one core.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from model.checks import INVARIANTS, RULES, full, lake, large, small
from model.mutants import mutants, rules_of
from model.tlc import Check, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "internals" / "model.md").read_text("utf-8")
SURVIVORS = {"GiveWayWhenSlow", "DistrustOldLock"}
"""Rules that nothing in the model rests on; docs/internals/model.md says why they are kept."""
ONLY_MUTANTS = {
    *(("Lake", "RSnapshotFirst"), ("Index", "MWriteLate"), ("Publish", "UUnclaim")),
    *(("LakeVersions", "FNameAhead"), ("Pointer", "CEarly")),
}
"""Actions that only the lack of a rule lets happen."""
UNCOUNTED = {
    *("Lake, two vacuums", "Lake, versions", "Lake, numbers", "Lake, all ends"),
    *("Contents, two vacuums", "History, two vacuums", "Changes, all ends", "Publish, a log"),
    *("Publish, all ends", "Erase, twice", "Erase, all ends"),
}
"""Runs whose actions fire in others as well: to count them takes a third of a run."""
TO_REACH = {
    what
    for module in (
        *("Lake", "Contents", "Changes", "Publish", "LakeVersions", "Erase", "Pointer", "Replay"),
    )
    for what in re.findall(
        r'Reached\(\d+, "([^"]+)"', (ROOT / "model" / f"{module}.tla").read_text("utf-8")
    )
}
STEPS = r"""---- MODULE Steps ----
EXTENDS Lake
ASSUME TLCSet(97, 0) /\ TLCSet(98, <<>>) /\ TLCSet(99, <<>>)
Of(known, x) == IF x \in DOMAIN known THEN known[x] ELSE <<>>
Sizes(sets) == [n \in DOMAIN sets |-> Cardinality(sets[n])]
Kind(e) == <<e[1], {<<Sizes(x[2]), {y[2] : y \in x[3]}>> : x \in e[2]}>>
View(e) ==
  LET kinds == Kind(e)
      alike == Of(TLCGet(99), kinds)
      next == TLCGet(97) + 1
  IN IF e \in DOMAIN alike THEN alike[e]
     ELSE IF TLCSet(99, (kinds :> (alike @@ (e :> next))) @@ TLCGet(99)) /\ TLCSet(97, next)
          THEN next ELSE 0
State(v, state) ==
  LET alike == Of(TLCGet(98), v)
      next == Cardinality(DOMAIN alike) + 1
  IN IF state \in DOMAIN alike THEN alike[state]
     ELSE IF TLCSet(98, (v :> (alike @@ (state :> next))) @@ TLCGet(98)) THEN next ELSE 0
Told == [][LET v == View(Essence)
               w == View(Essence')
           IN PrintT(<<"step", v, State(v, vars), w, State(w, vars')>>)]_vars
===="""
"""Tells each step by numbers: what a state is by the view, which one of that view it is, and the
same of the next one. They are looked up among few, for TLC goes through all that it looks among."""
STEP = r'<<"step", (\d+), (\d+), (\d+), (\d+)>>'


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("check", mutants(), ids=lambda check: f"{check.module}-{check.name}")
def test_without_a_rule_its_invariant_fails(check: Check) -> None:
    """One run looks at several mutants, each in behaviours of its own."""
    outcome = run(check)
    assert outcome.broken == check.breaks.keys(), outcome.text[-2000:]
    assert outcome.violated == check.violates, outcome.text[-2000:]


@pytest.mark.usefixtures("long_runs")
def test_the_smallest_lakes() -> None:
    """All holds, all ends, each action fires and each interesting state is reached."""
    outcomes = [run(check, count_actions=check.name not in UNCOUNTED) for check in small()]
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


FEWER = {"MaxBehind": 0, "LateRequests": False}
ALIKE = [
    # The next ones have a reader, and writers.
    pytest.param(lake(1, 1, 0, 0, 1), id="reader", marks=pytest.mark.variant),
    pytest.param({**lake(0, 1, 0, 1, 1), **FEWER}, id="freezer"),
    pytest.param({**lake(2, 0, 0, 0, 1), **FEWER}, id="writers"),
    pytest.param(lake(0, 0, 1, 0, 1, 1), id="drop"),
]


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("constants", ALIKE)
def test_states_that_a_view_takes_for_one_go_on_alike(constants: dict[str, object]) -> None:
    """Their next states are the same by the view; so none is missed where one is gone on from."""
    told = Check("all", "Steps", constants, properties=("Told",), symmetry=False)
    every = run(told, files={"Steps.tla": STEPS})
    assert every.as_expected, every.text[-2000:]
    alike: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for view, state, its_view, after in re.findall(STEP, every.text):
        alike[view][state] |= {its_view} - {view}
        alike[its_view][after] |= set()  # it may be the last one
    assert sum(map(len, alike.values())) == every.states
    unlike = [set(map(frozenset, states.values())) for states in alike.values()]
    assert [ways for ways in unlike if len(ways) > 1] == []
    viewed = run(Check("alike", "Lake", constants, view="Essence"))
    assert viewed.states == len(alike) < every.states


def test_each_rule_has_a_mutant_and_each_mutant_one_rule() -> None:
    named = [(check.module, rule) for check in mutants() for rule in rules_of(check)]
    mutated = set(named)
    assert len(mutated) == len(named)
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
    lines = [
        f"| {rule} | {check.module} | `{fails}` |"
        for check in mutants()
        for rule, fails in rules_of(check).items()
    ]
    assert [line for line in lines if line not in PAGE] == []
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
