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
    "RestorableFilesExist",
    "EntriesAreOfTheirTable",
    "DropTakesNoVersion",
)
NUMBERS = ("OneCommitEach", "BlocksNumberedOnce")
HISTORY = ("NoEntryBreaksTheLog", "VersionsReadTheSame", "RetainedHistoryReads")
INDEX = ("MarkerImpliesItsFiles", "LiveReadersKeepTheirIndex", "NobodyTrustsAnEmptyMarker")
TURNS = ("AcknowledgedInLog", "OneWriterOfANumber", "NoGap")
CHANGES = (
    "ChangedAsAsked",
    "LockedRowsAsRead",
    "VersionsAreOfTheirState",
    "ChangesAreOfTheirTable",
    "RefusedForAReason",
)
INVARIANTS = {
    "Lake": LAKE,
    "History": HISTORY,
    "Changes": CHANGES,
    "Index": INDEX,
    "Turns": TURNS,
}

RULES: Mapping[str, tuple[str, ...]] = {
    "Lake": (
        *("LeaseBeforeSnapshot", "RereadAfterLease", "AnnounceBeforeDelete", "CheckDoomed"),
        *("ReadBackLostReply", "KeepWhileUnknown", "RetentionCoversReads", "StaleAboveBeat"),
        *("LeasesListedLast", "NamesOnce", "Renumber", "CheckUnmoved", "TakeOver"),
        *("SameTable", "UndropChecksNamed", "KeepRestorable", "DropChecksVersions"),
    ),
    "History": (
        *("CheckUnmovedSincePlan", "CheckUnmoved", "FreezeChecksReadable", "DropChecksFrozen"),
    ),
    "Changes": (
        *("RowLock", "CompareOnCommit", "AllAsked", "OwnRowsOnly", "SameTable"),
        *("SameTableAgain", "VersionOfWhatIsLeft"),
    ),
    "Index": (
        *("FilesBeforeMarker", "MarkerDeletedFirst", "LeasesListedLast", "MakersHoldLeases"),
        *("MarkerReadAgain", "FilesLookedFor"),
    ),
    "Turns": ("LockRecheck", "ReadBackEntry", "GiveWayWhenSlow", "DistrustOldLock"),
}


def lake(
    writers: int, readers: int, passers: int, freezers: int, vacuums: int, droppers: int = 0
) -> dict[str, object]:
    """Constants of the module Lake with every rule in force.

    Args:
        writers: How many.
        readers: Those with a lease.
        passers: Those without.
        freezers: How many.
        vacuums: How many.
        droppers: Those who drop the table, and bring it back.
    """
    return {
        "Writers": writers,
        "Readers": readers,
        "Passers": passers,
        "Freezers": freezers,
        "Vacuums": vacuums,
        "Droppers": droppers,
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


def changes(changers: int, syncs: int = 1, **counts: int) -> dict[str, object]:
    """Constants of the module Changes with every rule in force.

    One value is enough: a row is there or not, and may be written again as it was.
    """
    return {
        "Keys": "{k1, k2}",
        "Values": "{v1}",
        "Changers": changers,
        "Nothing": "Nothing",
        "None": "None",
        "MaxSyncs": syncs,
        "MaxDrops": 1,
        "Attempts": 2,
        **counts,
        **dict.fromkeys(RULES["Changes"], True),
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
    found = [*_lake_mutants(), *_other_mutants()]
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


def _lake_mutants() -> list[Check]:
    one, readers = lake(1, 1, 0, 0, 1), "LiveReadersKeepTheirFiles"
    return [
        _without("LeaseBeforeSnapshot", "Lake", one, readers),
        _without("RereadAfterLease", "Lake", one, readers),
        _without("AnnounceBeforeDelete", "Lake", one, "NeededFilesExist"),
        _without("CheckDoomed", "Lake", one, "NothingDoomedIsNamed"),
        _without("ReadBackLostReply", "Lake", one, "NeededFilesExist"),
        _without("KeepWhileUnknown", "Lake", one, "NeededFilesExist"),
        _without("RetentionCoversReads", "Lake", lake(0, 0, 1, 0, 1), readers),
        _without("StaleAboveBeat", "Lake", one, readers),
        _without("LeasesListedLast", "Lake", one, readers),
        _without("NamesOnce", "Lake", lake(2, 0, 0, 0, 1), "NeededFilesExist"),
        _without("Renumber", "Lake", lake(2, 0, 0, 0, 0), "BlocksNumberedOnce"),
        _without("SameTable", "Lake", lake(1, 0, 0, 1, 0, 1), "EntriesAreOfTheirTable"),
        _without("DropChecksVersions", "Lake", lake(1, 0, 0, 1, 0, 1), "DropTakesNoVersion"),
        _without("UndropChecksNamed", "Lake", lake(0, 0, 0, 0, 1, 1), "NeededFilesExist"),
        _without("KeepRestorable", "Lake", lake(0, 0, 1, 0, 1, 1), "RestorableFilesExist"),
    ]


def _other_mutants() -> list[Check]:
    two, frozen = history(0, 2, 2), history(1, 1, 2)
    return [
        _without("CheckUnmoved", "History", two, "NoEntryBreaksTheLog"),
        _without("CheckUnmovedSincePlan", "History", two, "NoEntryBreaksTheLog"),
        _without("FreezeChecksReadable", "History", frozen, "VersionsReadTheSame"),
        _without("DropChecksFrozen", "History", frozen, "VersionsReadTheSame"),
        _without("FilesBeforeMarker", "Index", index(1, 0, 0), "MarkerImpliesItsFiles"),
        _without("MarkerDeletedFirst", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("LeasesListedLast", "Index", index(1, 1, 1), "LiveReadersKeepTheirIndex"),
        _without("MakersHoldLeases", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("MarkerReadAgain", "Index", index(1, 0, 1), "MarkerImpliesItsFiles"),
        _without("FilesLookedFor", "Index", index(1, 1, 1), "NobodyTrustsAnEmptyMarker"),
        _without("RowLock", "Changes", changes(1), "LockedRowsAsRead"),
        _without("CompareOnCommit", "Changes", changes(1), "LockedRowsAsRead"),
        _without("AllAsked", "Changes", changes(1), "ChangedAsAsked"),
        _without("OwnRowsOnly", "Changes", changes(1, Attempts=1), "RefusedForAReason"),
        _without("SameTable", "Changes", changes(1), "ChangesAreOfTheirTable"),
        _without("SameTableAgain", "Changes", changes(1), "ChangesAreOfTheirTable"),
        _without("VersionOfWhatIsLeft", "Changes", changes(1), "VersionsAreOfTheirState"),
        _without("LockRecheck", "Turns", turns(), "AcknowledgedInLog"),
        _without("ReadBackEntry", "Turns", turns(), "AcknowledgedInLog"),
        _broken("SettleTime", "Turns", turns(Wait=1), "AcknowledgedInLog"),
        # The assumption that docs/safety.md names: whoever is held up for longer than the others
        # wait may write over what they committed.
        _broken("Held", "Turns", turns(Held=5), "AcknowledgedInLog"),
    ]


def _without(rule: str, module: str, constants: Mapping[str, object], violated: str) -> Check:
    return _broken(rule, module, {**constants, rule: False}, violated)


def _broken(rule: str, module: str, constants: Mapping[str, object], violated: str) -> Check:
    return Check(f"without {rule}", module, constants, (violated,), violates=violated)


def small() -> list[Check]:
    """What must hold, and end, on the smallest lakes in which each process meets each other."""
    reached, dropped = (*LAKE, "AllIsReached"), (*LAKE, "DropsAreReached")
    changed = (*CHANGES, "AllIsReached")
    return [
        Check("Lake, a reader", "Lake", lake(1, 1, 0, 0, 1), reached, view="Essence"),
        Check("Lake, a freezer", "Lake", lake(0, 0, 1, 1, 1), reached, view="Essence"),
        Check("Lake, two vacuums", "Lake", lake(1, 0, 0, 0, 2), reached, view="Essence"),
        Check("Lake, a drop", "Lake", lake(1, 1, 0, 0, 1, 1), dropped, view="Essence"),
        Check("Lake, versions", "Lake", lake(1, 0, 0, 1, 0, 1), dropped, view="Essence"),
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
            {**locked(1, 1), "Droppers": 1},
            properties=("SnapshotsNeverChange", "WritersEnd", "VacuumsEnd"),
            specification="LiveSpec",
        ),
        Check("History, a sync", "History", history(1, 1, 3), HISTORY),
        Check("History, two vacuums", "History", history(1, 2, 2), HISTORY),
        Check("Changes", "Changes", changes(2, 0, MaxDrops=0), changed),
        Check("Changes, a drop", "Changes", changes(1), changed),
        Check(
            "Changes, all ends",
            "Changes",
            changes(1, 0),
            properties=("ChangesEnd",),
            specification="LiveSpec",
        ),
        Check("Index", "Index", index(2, 1, 1), INDEX),
        Check("Turns", "Turns", turns(), TURNS),
    ]


def locked(writers: int, vacuums: int) -> dict[str, object]:
    """A lake whose vacuums take their lock; nothing else rests on it."""
    return {**lake(writers, 0, 0, 0, vacuums), "VacuumLock": True}


def full() -> list[Check]:
    """Two writers, two readers, a freezer, two vacuums, and those who drop the table; minutes.

    A request that comes late commits as one that is made late does, so that these leave it out;
    the smaller ones have it, for the writer that does not know.
    """
    fewer = {"MaxBehind": 0, "LateRequests": False}
    return [
        Check("Lake", "Lake", {**lake(2, 2, 0, 1, 2), **fewer}, LAKE, view="Essence"),
        Check("Lake, no lease", "Lake", {**lake(2, 0, 1, 1, 2), **fewer}, LAKE, view="Essence"),
        Check("Lake, late manifests", "Lake", lake(2, 2, 0, 0, 1), LAKE, view="Essence"),
        Check("Lake, no view", "Lake", {**lake(2, 1, 0, 1, 1), **fewer}, LAKE),
        Check("Lake, drops", "Lake", {**lake(1, 1, 1, 1, 1, 1), **fewer}, LAKE, view="Essence"),
        Check("History", "History", history(1, 2, 3), HISTORY),
        Check("Changes", "Changes", changes(2), CHANGES),
        Check("Index", "Index", index(2, 2, 1), INDEX),
        Check("Turns", "Turns", turns(Beats=2), TURNS),
    ]


def large() -> list[Check]:
    """Hours, by option."""
    return [
        Check("Lake", "Lake", lake(2, 2, 1, 1, 2), LAKE, view="Essence"),
        Check("Lake, drops", "Lake", lake(2, 2, 0, 1, 2, 1), LAKE, view="Essence"),
        Check("History", "History", history(2, 2, 4), HISTORY),
        Check("Changes", "Changes", changes(3, 2), CHANGES),
        Check("Index", "Index", index(3, 3, 1), INDEX),
        Check("Turns", "Turns", turns(3, Beats=2), TURNS),
    ]
