"""What TLC is asked: the rules' mutants, and the modules at three sizes."""

from __future__ import annotations

from collections.abc import Mapping

from model.tlc import Check

LAKE = (
    "AcknowledgedInLog",
    "OneCommitEach",
    "BlocksNumberedOnce",
    "NeededFilesExist",
    "LiveReadersKeepTheirFiles",
    "NothingDoomedIsNamed",
)
NUMBERS = ("OneCommitEach", "BlocksNumberedOnce")
HISTORY = ("NoEntryBreaksTheLog", "VersionsReadTheSame", "RetainedHistoryReads")
INDEX = ("MarkerImpliesItsFiles", "LiveReadersKeepTheirIndex", "NobodyTrustsAnEmptyMarker")
TURNS = ("AcknowledgedInLog", "OneWriterOfANumber", "NoGap")
INVARIANTS = {"Lake": LAKE, "History": HISTORY, "Index": INDEX, "Turns": TURNS}

RULES: Mapping[str, tuple[str, ...]] = {
    "Lake": (
        *("LeaseBeforeSnapshot", "RereadAfterLease", "AnnounceBeforeDelete", "CheckDoomed"),
        *("ReadBackLostReply", "KeepWhileUnknown", "RetentionCoversReads", "StaleAboveBeat"),
        *("LeasesListedLast", "NamesOnce", "Renumber", "CheckUnmoved", "TakeOver"),
    ),
    "History": (
        *("CheckUnmovedSincePlan", "CheckUnmoved", "FreezeChecksReadable", "DropChecksFrozen"),
    ),
    "Index": (
        *("FilesBeforeMarker", "MarkerDeletedFirst", "LeasesListedLast", "MakersHoldLeases"),
        *("MarkerReadAgain", "FilesLookedFor"),
    ),
    "Turns": ("LockRecheck", "ReadBackEntry", "GiveWayWhenSlow", "DistrustOldLock"),
}


def lake(
    writers: int, readers: int, passers: int, freezers: int, vacuums: int
) -> dict[str, object]:
    """Constants of the module Lake with every rule in force.

    Args:
        writers: How many.
        readers: Those with a lease.
        passers: Those without.
        freezers: How many.
        vacuums: How many.
    """
    return {
        "Writers": writers,
        "Readers": readers,
        "Passers": passers,
        "Freezers": freezers,
        "Vacuums": vacuums,
        "Past": "Past",
        "None": "None",
        "MaxBehind": 1,
        "VacuumLock": False,
        "LateRequests": True,
        **dict.fromkeys(RULES["Lake"], True),
    }


def history(freezers: int, vacuums: int, syncs: int) -> dict[str, object]:
    """Constants of the module History with every rule in force."""
    return {
        "Keys": "{1, 2}",
        "MaxSyncs": syncs,
        "Freezers": freezers,
        "Vacuums": vacuums,
        **dict.fromkeys(RULES["History"], True),
    }


def index(makers: int, readers: int, vacuums: int) -> dict[str, object]:
    """Constants of the module Index with every rule in force."""
    return {
        "Makers": makers,
        "Readers": readers,
        "Vacuums": vacuums,
        "None": "None",
        **dict.fromkeys(RULES["Index"], True),
    }


def turns(writers: int = 2, **times: int) -> dict[str, object]:
    """Constants of the module Turns with every rule in force, one settle time a tick."""
    plain = {"Settle": 1, "Wait": 4, "Stale": 8, "Patience": 8, "Held": 1, "Beats": 1}
    return {
        "Writers": writers,
        "None": "None",
        **plain,
        **times,
        **dict.fromkeys(RULES["Turns"], True),
    }


def mutants() -> list[Check]:
    """One for each rule: without it the named invariant fails, on a lake as small as can be."""
    small, two = lake(1, 1, 0, 0, 1), lake(2, 0, 0, 0, 0)
    readers = "LiveReadersKeepTheirFiles"
    found = [
        _without("LeaseBeforeSnapshot", "Lake", small, readers),
        _without("RereadAfterLease", "Lake", small, readers),
        _without("AnnounceBeforeDelete", "Lake", small, "NeededFilesExist"),
        _without("CheckDoomed", "Lake", small, "NothingDoomedIsNamed"),
        _without("ReadBackLostReply", "Lake", small, "NeededFilesExist"),
        _without("KeepWhileUnknown", "Lake", small, "NeededFilesExist"),
        _without("RetentionCoversReads", "Lake", lake(0, 0, 1, 0, 1), readers),
        _without("StaleAboveBeat", "Lake", small, readers),
        _without("LeasesListedLast", "Lake", small, readers),
        _without("NamesOnce", "Lake", lake(2, 0, 0, 0, 1), "NeededFilesExist"),
        _without("Renumber", "Lake", two, "BlocksNumberedOnce"),
        _without("CheckUnmoved", "History", history(0, 2, 2), "NoEntryBreaksTheLog"),
        _without("CheckUnmovedSincePlan", "History", history(0, 2, 2), "NoEntryBreaksTheLog"),
        _without("FreezeChecksReadable", "History", history(1, 1, 2), "VersionsReadTheSame"),
        _without("DropChecksFrozen", "History", history(1, 1, 2), "VersionsReadTheSame"),
        _without("FilesBeforeMarker", "Index", index(1, 0, 0), "MarkerImpliesItsFiles"),
        _without("MarkerDeletedFirst", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("LeasesListedLast", "Index", index(1, 1, 1), "LiveReadersKeepTheirIndex"),
        _without("MakersHoldLeases", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("MarkerReadAgain", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("FilesLookedFor", "Index", index(1, 1, 1), "NobodyTrustsAnEmptyMarker"),
        _without("LockRecheck", "Turns", turns(), "AcknowledgedInLog"),
        _without("ReadBackEntry", "Turns", turns(), "AcknowledgedInLog"),
        _broken("SettleTime", "Turns", turns(Wait=1), "AcknowledgedInLog"),
    ]
    # The assumption that docs/safety.md names: whoever is held up for longer than the others wait
    # may write over what they committed.
    found.append(_broken("Held", "Turns", turns(Held=5), "AcknowledgedInLog"))
    found.append(
        Check(
            "without TakeOver",
            "Lake",
            {**lake(0, 0, 0, 0, 2), "VacuumLock": True, "TakeOver": False},
            properties=("VacuumsEnd",),
            violates="VacuumsEnd",
            specification="LiveSpec",
        )
    )
    apart = Check(
        "without VacuumLock",
        "Lake",
        lake(0, 0, 0, 0, 2),
        ("VacuumsApart",),
        violates="VacuumsApart",
    )
    return [*found, apart]


def _without(rule: str, module: str, constants: Mapping[str, object], violated: str) -> Check:
    return _broken(rule, module, {**constants, rule: False}, violated)


def _broken(rule: str, module: str, constants: Mapping[str, object], violated: str) -> Check:
    return Check(f"without {rule}", module, constants, (violated,), violates=violated)


def small() -> list[Check]:
    """What must hold, and end, on the smallest lakes in which each process meets each other."""
    reached = (*LAKE, "AllIsReached")
    return [
        Check("Lake, a reader", "Lake", lake(1, 1, 0, 0, 1), reached, view="Essence"),
        Check("Lake, a freezer", "Lake", lake(0, 0, 1, 1, 1), reached, view="Essence"),
        Check("Lake, two vacuums", "Lake", lake(1, 0, 0, 0, 2), reached, view="Essence"),
        # Without the view, which leaves out what these two go by.
        Check("Lake, numbers", "Lake", lake(2, 0, 0, 0, 1), NUMBERS),
        Check(
            "Lake, the lock",
            "Lake",
            locked(0, 2),
            ("VacuumsApart",),
            ("VacuumsEnd",),
            specification="LiveSpec",
        ),
        Check(
            "Lake, all ends",
            "Lake",
            locked(1, 1),
            properties=("SnapshotsNeverChange", "WritersEnd", "VacuumsEnd"),
            specification="LiveSpec",
        ),
        Check("History, a sync", "History", history(1, 1, 3), HISTORY, view="Essence"),
        Check("History, two vacuums", "History", history(1, 2, 2), HISTORY, view="Essence"),
        Check("Index", "Index", index(2, 1, 1), INDEX),
        Check("Turns", "Turns", turns(), TURNS),
    ]


def locked(writers: int, vacuums: int) -> dict[str, object]:
    """A lake whose vacuums take their lock; nothing else rests on it."""
    return {**lake(writers, 0, 0, 0, vacuums), "VacuumLock": True}


def full() -> list[Check]:
    """Two writers, two who read with a lease or one with and one without, two vacuums; minutes.

    A request that comes late commits as one that is made late does, so that these leave it out;
    the smaller ones have it, for the writer that does not know.
    """
    fewer = {"MaxBehind": 0, "LateRequests": False}
    return [
        Check("Lake", "Lake", {**lake(2, 1, 0, 1, 2), **fewer}, LAKE, view="Essence"),
        Check("Lake, no lease", "Lake", {**lake(2, 0, 1, 1, 2), **fewer}, LAKE, view="Essence"),
        Check("Lake, late manifests", "Lake", lake(2, 2, 0, 0, 1), LAKE, view="Essence"),
        Check("History", "History", history(1, 2, 3), HISTORY, view="Essence"),
        Check("Index", "Index", index(2, 2, 1), INDEX),
        Check("Turns", "Turns", turns(Beats=2), TURNS),
    ]


def large() -> list[Check]:
    """Hours, by option."""
    return [
        Check("Lake, readers", "Lake", lake(2, 2, 0, 1, 2), LAKE, view="Essence"),
        Check("Lake", "Lake", lake(2, 2, 1, 1, 2), LAKE, view="Essence"),
        Check("History", "History", history(2, 2, 4), HISTORY, view="Essence"),
        Check("Index", "Index", index(3, 3, 1), INDEX),
        Check("Turns", "Turns", turns(3, Beats=2), TURNS),
    ]
