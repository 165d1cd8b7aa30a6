"""Check the model: ``python -m model``, and ``--large`` for hours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from model.checks import full, large, small
from model.mutants import mutants
from model.tlc import Check, Outcome, run

PAGE = Path(__file__).parents[1] / "docs" / "internals" / "model.md"
BEGIN, END = "<!-- states: made by make model -->\n", "<!-- end -->\n"
HEAD = (
    "| module | size | states | depth | time | what holds |\n"
    "| --- | --- | ---: | ---: | ---: | --- |\n"
)
SIZES = {
    "Writers": ("writer", "writers"),
    "Changers": ("change", "changes"),
    "Erasers": ("erasure", "erasures"),
    "Persons": ("person", "persons"),
    "Makers": ("maker", "makers"),
    "Readers": ("reader", "readers"),
    "Passers": ("reader without a lease", "readers without a lease"),
    "Freezers": ("freezer", "freezers"),
    "Tables": ("table", "tables"),
    "Vacuums": ("vacuum", "vacuums"),
    "Droppers": ("dropper", "droppers"),
    "Movers": ("mover", "movers"),
    "Deleters": ("deleter of versions", "deleters of versions"),
    "Replayers": ("replay", "replays"),
    "Lines": ("line", "lines"),
    "MaxRejections": ("rejection", "rejections"),
    "MaxSyncs": ("sync", "syncs"),
    "MaxDrops": ("drop", "drops"),
    "Beats": ("beat", "beats"),
    "Publishers": ("publisher", "publishers"),
    "Removers": ("remover", "removers"),
    "MaxRuns": ("run", "runs"),
    "MaxCopies": ("copy", "copies"),
    "MaxFreezes": ("version", "versions"),
    "MaxFloors": ("drop of history", "drops of history"),
}
"""A check's constants that say how large it is, in words for one and for several."""


KINDS = {"folders": "files in folders", "log": "Iceberg or Delta", "stage": "a staging table"}
"""The kinds of places of Publish."""


def _size(value: object) -> int:
    """How many a constant says there are; a set is given as a text."""
    text = str(value)
    return text.count("1") if text.startswith("{") else int(text)


def row(outcome: Outcome) -> str:
    """One line of the table on the page."""
    check = outcome.check
    sizes = [
        f"{n} {(one if n == 1 else several)}"
        for name, (one, several) in SIZES.items()
        if (n := _size(check.constants.get(name, 0)))
    ]
    if (kind := str(check.constants.get("Kind", "")).strip('"')) in KINDS:
        sizes.insert(0, KINDS[kind])
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
        what = f"{len(outcome.broken)} fail" if check.breaks else what
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
