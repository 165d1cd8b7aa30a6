"""What TLC is asked of the modules, at three sizes; ``mutants`` has the rules' mutants."""

from __future__ import annotations

from collections.abc import Mapping

from model import erasures, publications
from model.erasures import ERASE, ERASE_RULES
from model.publications import PUBLISH, PUBLISH_RULES
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
CONTENTS = (
    "NeededContentExists",
    "NothingAnnouncedIsNamed",
    "ReadersKeepTheirContent",
    "RestorableContentExists",
)
TURNS = ("AcknowledgedInLog", "OneWriterOfANumber", "NoGap")
CHANGES = (
    "ChangedAsAsked",
    "LockedRowsAsRead",
    "VersionsAreOfTheirState",
    "ChangesAreOfTheirTable",
    "RefusedForAReason",
)
LAKE_VERSIONS = (
    "CutsAreOfOneMoment",
    "NamedVersionsExist",
    "NamedVersionsAreOfTheCut",
    "NumbersAreWrittenOnce",
)
POINTER = (
    "PointersNameVersions",
    "PointersAreAsTheLog",
    "NoMoveIsLost",
    "SignersPointAtSigned",
    "ReadersSeeCommitted",
)
REPLAY = ("RecordsAreSomewhere", "RowsComeOnce", "NewerRowsStay")
INVARIANTS = {
    "Lake": LAKE,
    "Contents": CONTENTS,
    "History": HISTORY,
    "Changes": CHANGES,
    "Index": INDEX,
    "Turns": TURNS,
    "LakeVersions": LAKE_VERSIONS,
    "Pointer": POINTER,
    "Replay": REPLAY,
    "Publish": PUBLISH,
    "Erase": ERASE,
}

RULES: Mapping[str, tuple[str, ...]] = {
    "Lake": (
        *("LeaseBeforeSnapshot", "RereadAfterLease", "AnnounceBeforeDelete", "CheckDoomed"),
        *("ReadBackLostReply", "KeepWhileUnknown", "RetentionCoversReads", "StaleAboveBeat"),
        *("LeasesListedLast", "NamesOnce", "Renumber", "CheckUnmoved", "TakeOver"),
        *("SameTable", "UndropChecksNamed", "KeepRestorable", "DropChecksVersions"),
    ),
    "Contents": (
        *("StoreFirst", "KnownByLists", "CheckAnnounced", "KeepAnnounced", "LostListRefuses"),
        *("LookAgain", "AnnounceFirst", "NamesOnce", "HeldByLeases", "AgeByLists"),
        "UndropChecksAnnounced",
    ),
    "History": (
        *("CheckUnmovedSincePlan", "CheckUnmoved", "FreezeChecksReadable", "DropChecksFrozen"),
        "KeepDeleted",
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
    "LakeVersions": ("LookTwice", "ListAgain", "FreezeAtCut", "VersionsFirst", "PutIfAbsent"),
    "Pointer": (
        *("DraftAgain", "Unmoved", "VersionThere", "NotPointed", "SinceItBegan", "SignFirst"),
        *("DeletedKeepNotes", "ManifestLast"),
    ),
    "Replay": ("RowsFirst", "Conditional", "LogSays", "ByBlock", "ById", "NotOlder"),
    "Publish": PUBLISH_RULES,
    "Erase": ERASE_RULES,
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


def contents(writers: int, vacuums: int, again: bool = False, **others: int) -> dict[str, object]:
    """Constants of the module Contents with every rule in force.

    Args:
        writers: How many.
        vacuums: How many.
        again: Whether a writer commits twice in one run.
        others: Readers, those without a lease, and those who drop the table.
    """
    return {
        "Writers": writers,
        **dict.fromkeys(("Readers", "Passers", "Droppers"), 0),
        **others,
        "Vacuums": vacuums,
        "Past": "Past",
        "Again": again,
        **dict.fromkeys(RULES["Contents"], True),
    }


def history(freezers: int, vacuums: int, syncs: int, deletions: int = 1) -> dict[str, object]:
    """Constants of the module History with every rule in force."""
    return {
        "Keys": "{1, 2}",
        "MaxSyncs": syncs,
        "MaxDeletions": deletions,
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


def lake_versions(freezers: int, syncs: int, tables: int = 2) -> dict[str, object]:
    """Constants of the module LakeVersions with every rule in force."""
    return {
        "Tables": tables,
        "Freezers": freezers,
        "MaxSyncs": syncs,
        **dict.fromkeys(RULES["LakeVersions"], True),
    }


def pointer(
    movers: int, deleters: int, freezers: int, readers: int, runs: int
) -> dict[str, object]:
    """Constants of the module Pointer with every rule in force.

    Args:
        runs: How often processes begin, all together.
    """
    return {
        "Movers": movers,
        "Deleters": deleters,
        "Freezers": freezers,
        "Readers": readers,
        "MaxRuns": runs,
        **dict.fromkeys(RULES["Pointer"], True),
    }


def replay(
    replayers: int,
    lines: int,
    syncs: int,
    rejections: int,
    runs: int,
    *,
    keyed: bool,
    copies: int = 0,
) -> dict[str, object]:
    """Constants of the module Replay with every rule in force.

    Args:
        rejections: Of all lines together; a line may be rejected again.
        keyed: Whether the table has a key, so that a row may be newer than a record.
        copies: How often what is looked at becomes a copy without the dead-letter table.
    """
    return {
        "Replayers": replayers,
        "Lines": lines,
        "None": "None",
        "MaxSyncs": syncs,
        "MaxRejections": rejections,
        "MaxRuns": runs,
        "MaxCopies": copies,
        "Keyed": keyed,
        **dict.fromkeys(RULES["Replay"], True),
    }


def small() -> list[Check]:
    """What must hold, and end, on the smallest lakes in which each process meets each other."""
    reached, dropped = (*LAKE, "AllIsReached"), (*LAKE, "DropsAreReached")
    changed = (*CHANGES, "AllIsReached")
    named, readers = (*CONTENTS, "AllIsReached", "DropsAreReached"), {"Readers": 1, "Passers": 1}
    return [
        Check("Lake, a freezer", "Lake", lake(0, 0, 1, 1, 1), reached, view="Essence"),
        Check("Lake, two vacuums", "Lake", lake(1, 0, 0, 0, 2), reached, view="Essence"),
        # Who drops a table may never do it, so this is a reader beside a vacuum alone, too.
        Check(
            "Lake, a drop",
            "Lake",
            lake(1, 1, 0, 0, 1, 1),
            (*reached, "DropsAreReached"),
            view="Essence",
        ),
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
        # One vacuum beside who drops the table, and two of them; all together are in `full`.
        Check("Contents, a drop", "Contents", contents(1, 1, Droppers=1), named),
        Check("Contents, two vacuums", "Contents", contents(1, 2), named),
        Check("Contents, readers", "Contents", contents(0, 1, **readers, Droppers=1), named),
        Check("History, a sync", "History", history(1, 1, 3), HISTORY),
        # What deletes versions meets two vacuums here; in `full` one, and more syncs.
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
        Check(
            "Lake versions", "LakeVersions", lake_versions(2, 2), (*LAKE_VERSIONS, "AllIsReached")
        ),
        Check("Pointer", "Pointer", pointer(1, 1, 1, 0, 3), (*POINTER, "AllIsReached")),
        Check("Pointer, a reader", "Pointer", pointer(1, 1, 0, 1, 4), (*POINTER, "AllIsReached")),
        Check(
            "Pointer, all ends",
            "Pointer",
            pointer(1, 1, 1, 0, 2),
            properties=("MovesEnd",),
            specification="LiveSpec",
        ),
        Check(
            "Replay",
            "Replay",
            replay(2, 2, 1, 2, 3, keyed=True, copies=1),
            (*REPLAY, "AllIsReached"),
        ),
        Check("Replay, no key", "Replay", replay(2, 2, 0, 3, 3, keyed=False), REPLAY),
        Check(
            "Replay, all ends",
            "Replay",
            replay(1, 1, 1, 2, 2, keyed=True),
            properties=("ReplaysEnd",),
            specification="LiveSpec",
        ),
        *publications.smallest(),
        *erasures.smallest(),
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
        Check("Contents", "Contents", contents(1, 2, Droppers=1), CONTENTS),
        Check("Contents, twice", "Contents", contents(2, 1, again=True), CONTENTS),
        Check("Contents, a reader", "Contents", contents(1, 1, Readers=1, Droppers=1), CONTENTS),
        # Deletions are beside one vacuum, and in small() beside two: with both, thrice the states.
        Check("History", "History", history(1, 2, 3, deletions=0), HISTORY),
        Check("History, a deletion", "History", history(1, 1, 3), HISTORY),
        Check("Changes", "Changes", changes(2), CHANGES),
        Check("Index", "Index", index(2, 2, 1), INDEX),
        Check("Turns", "Turns", turns(Beats=2), TURNS),
        Check("Lake versions", "LakeVersions", lake_versions(2, 3, tables=3), LAKE_VERSIONS),
        Check(
            "Lake versions, all ends",
            "LakeVersions",
            lake_versions(2, 2),
            properties=("FreezersEnd",),
            specification="LiveSpec",
        ),
        Check("Pointer", "Pointer", pointer(2, 1, 2, 0, 3), POINTER),
        Check("Pointer, a reader", "Pointer", pointer(1, 1, 1, 1, 3), POINTER),
        Check("Replay", "Replay", replay(2, 2, 1, 3, 3, keyed=True), REPLAY),
        Check("Replay, no key", "Replay", replay(2, 2, 0, 4, 4, keyed=False, copies=1), REPLAY),
        *publications.full(),
        *erasures.full(),
    ]


def large() -> list[Check]:
    """Hours, by option."""
    return [
        Check("Lake", "Lake", lake(2, 2, 1, 1, 2), LAKE, view="Essence"),
        Check("Lake, drops", "Lake", lake(2, 2, 0, 1, 2, 1), LAKE, view="Essence"),
        Check("Contents", "Contents", contents(2, 2, again=True, Readers=1), CONTENTS),
        Check("History", "History", history(2, 2, 4), HISTORY),
        Check("Changes", "Changes", changes(3, 2), CHANGES),
        Check("Index", "Index", index(3, 3, 1), INDEX),
        Check("Turns", "Turns", turns(3, Beats=2), TURNS),
        Check("Lake versions", "LakeVersions", lake_versions(3, 3), LAKE_VERSIONS),
        Check("Pointer", "Pointer", pointer(2, 2, 2, 1, 5), POINTER),
        Check("Replay", "Replay", replay(3, 2, 2, 4, 5, keyed=True), REPLAY),
        *publications.large(),
        *erasures.large(),
    ]
