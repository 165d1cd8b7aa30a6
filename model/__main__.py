"""Check the model: ``python -m model``, and ``--large`` for hours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from model.checks import full, large, mutants, small
from model.tlc import Check, Outcome, run

PAGE = Path(__file__).parents[1] / "docs" / "model.md"
BEGIN, END = "<!-- states: made by make model -->\n", "<!-- end -->\n"
HEAD = (
    "| module | size | states | depth | time | what holds |\n"
    "| --- | --- | ---: | ---: | ---: | --- |\n"
)
SIZES = {
    "Writers": ("writer", "writers"),
    "Changers": ("change", "changes"),
    "Makers": ("maker", "makers"),
    "Readers": ("reader", "readers"),
    "Passers": ("reader without a lease", "readers without a lease"),
    "Freezers": ("freezer", "freezers"),
    "Vacuums": ("vacuum", "vacuums"),
    "Droppers": ("dropper", "droppers"),
    "MaxSyncs": ("sync", "syncs"),
    "MaxDrops": ("drop", "drops"),
    "Beats": ("beat", "beats"),
}
"""A check's constants that say how large it is, in words for one and for several."""


def row(outcome: Outcome) -> str:
    """One line of the table on the page."""
    check = outcome.check
    sizes = [
        f"{n} {(one if n == 1 else several)}"
        for name, (one, several) in SIZES.items()
        if (n := int(str(check.constants.get(name, 0))))
    ]
    holds = ", ".join(f"`{name}`" for name in (*check.invariants, *check.properties))
    return (
        f"| {check.module} | {', '.join(sizes)} | {outcome.states:,} | {outcome.depth} "
        f"| {outcome.seconds} s | {holds} |"
    )


def checked(checks: list[Check], *, workers: int, memory: str) -> list[Outcome]:
    """Run them, and say of each what came out."""
    found = []
    for check in checks:
        outcome = run(check, workers=workers, memory=memory, patience=24 * 3600)
        found.append(outcome)
        word = "as expected" if outcome.as_expected else "NOT AS EXPECTED"
        what = f"{outcome.violated} fails" if outcome.violated else "all holds"
        print(
            f"{check.module:8} {check.name:32} {what:34} {outcome.states:>10,} states, "
            f"depth {outcome.depth:2}, {outcome.seconds:4} s: {word}",
            flush=True,
        )
        if not outcome.as_expected:
            print(outcome.text[-6000:])
    return found


def main(arguments: list[str]) -> int:
    """Run all; 1 where something is not as expected."""
    cores = os.cpu_count() or 1
    outcomes = checked(mutants() + small(), workers=1, memory="1g")
    sized = checked(large() if "--large" in arguments else full(), workers=cores, memory="4g")
    if "--large" not in arguments and all(one.as_expected for one in sized):
        table = HEAD + "".join(f"{row(one)}\n" for one in sized)
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", "utf-8")
    return int(not all(one.as_expected for one in outcomes + sized))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
