"""What TLC is asked of the module Erase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.tlc import Check

ERASE = (
    "StatesAreLessErased",
    "VersionsAreProved",
    "ReadersKeepTheirFiles",
    "LogHasNoGap",
    "ResealedIsAnnounced",
    "IndexesAreLessErased",
    "NoFileHasErasedRows",
    "NoEntryHasOldProofs",
)
ERASE_RULES = (
    *("AnnounceErasure", "LookForComers", "CompareVersions", "CheckUnmoved", "CheckDoomed"),
    *("FreezeChecksErased", "WaitForLeases", "IndexKnowsErasures", "ReplaceIfSame", "LeaveNewer"),
    *("ReplaceInPlace", "KeepChain", "LookUntilNothing"),
)


def erase(
    erasers: int = 1, persons: int = 1, attempts: int = 1, **others: int
) -> dict[str, object]:
    """Constants of the module Erase with every rule in force.

    Args:
        erasers: How many.
        persons: Whose rows may be erased; each eraser takes one of them.
        attempts: How often an eraser begins.
        others: Writers, freezers, readers, makers of indexes, and vacuums.
    """
    return {
        **dict.fromkeys(("Writers", "Freezers", "Readers", "Makers", "Vacuums"), 0),
        "Erasers": erasers,
        "Persons": persons,
        "Attempts": attempts,
        **others,
        "Nobody": "Nobody",
        "Past": "Past",
        **dict.fromkeys(ERASE_RULES, True),
    }


TWICE = erase(2, 2)
"""Two who erase, each one of two persons, or both the same."""
ERASE_MUTANTS: Sequence[tuple[Mapping[str, object], Mapping[str, str]]] = [
    (
        erase(Writers=1, Readers=1),
        {
            "AnnounceErasure": "ResealedIsAnnounced",
            "LookForComers": "StatesAreLessErased",
            "WaitForLeases": "ReadersKeepTheirFiles",
            "ReplaceInPlace": "LogHasNoGap",
            "KeepChain": "LogHasNoGap",
        },
    ),
    (
        erase(Freezers=1, Makers=1),
        {
            "CompareVersions": "VersionsAreProved",
            "FreezeChecksErased": "VersionsAreProved",
            "IndexKnowsErasures": "IndexesAreLessErased",
            "LookUntilNothing": "NoFileHasErasedRows",
        },
    ),
    (
        erase(Vacuums=1),
        {"CheckUnmoved": "StatesAreLessErased", "CheckDoomed": "StatesAreLessErased"},
    ),
    (TWICE, {"ReplaceIfSame": "NoEntryHasOldProofs", "LeaveNewer": "NoEntryHasOldProofs"}),
]
"""Rules of Erase, and the invariants that fail without them; each line is one run."""


def smallest() -> list[Check]:
    """What must hold, and end, beside one of each kind."""
    reached = (*ERASE, "AllIsReached")
    return [
        Check("Erase, a writer", "Erase", erase(attempts=2, Writers=1, Readers=1), reached),
        Check("Erase, a freezer", "Erase", erase(Freezers=1, Makers=1), reached),
        Check("Erase, a vacuum", "Erase", erase(Vacuums=1), reached),
        Check("Erase, twice", "Erase", TWICE, (*ERASE, "EntriesAreReached")),
        Check(
            "Erase, all ends",
            "Erase",
            erase(Writers=1),
            properties=("ErasersEnd",),
            specification="LiveSpec",
        ),
    ]


def full() -> list[Check]:
    """Two of them at once, and one beside a vacuum and a reader; a minute."""
    return [
        Check("Erase", "Erase", erase(2, 2, attempts=2), ERASE),
        Check("Erase, a vacuum", "Erase", erase(Vacuums=1, Readers=1), ERASE),
    ]


def large() -> list[Check]:
    """Hours, by option."""
    return [
        Check("Erase", "Erase", erase(2, 2, attempts=2, Vacuums=1, Writers=1), ERASE),
        Check("Erase, a freezer", "Erase", erase(Vacuums=1, Freezers=1, Makers=1), ERASE),
        Check("Erase, others", "Erase", erase(Writers=1, Freezers=1, Readers=1), ERASE),
    ]
