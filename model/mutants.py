"""The rules' mutants: without each rule, the invariant that it is there for fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.checks import (
    changes,
    contents,
    history,
    index,
    lake,
    lake_versions,
    locked,
    pointer,
    replay,
    turns,
)
from model.erasures import ERASE_MUTANTS
from model.publications import PUBLISH_MUTANTS
from model.tlc import Check

READERS = "LiveReadersKeepTheirFiles"
Group = tuple[str, Mapping[str, object], Mapping[str, str]]
_RULES: Sequence[Group] = [
    (
        "Lake",
        lake(1, 1, 0, 0, 1),
        {
            "LeaseBeforeSnapshot": READERS,
            "RereadAfterLease": READERS,
            "AnnounceBeforeDelete": "NeededFilesExist",
            "CheckDoomed": "NothingDoomedIsNamed",
            "ReadBackLostReply": "NeededFilesExist",
            "KeepWhileUnknown": "NeededFilesExist",
            "StaleAboveBeat": READERS,
            "LeasesListedLast": READERS,
        },
    ),
    (
        "Lake",
        lake(2, 0, 0, 0, 1),
        {"NamesOnce": "NeededFilesExist", "Renumber": "BlocksNumberedOnce"},
    ),
    (
        "Lake",
        lake(1, 0, 0, 1, 0, 1),
        {"SameTable": "EntriesAreOfTheirTable", "DropChecksVersions": "DropTakesNoVersion"},
    ),
    (
        "Lake",
        lake(0, 0, 1, 0, 1, 1),
        {
            "RetentionCoversReads": READERS,
            "UndropChecksNamed": "NeededFilesExist",
            "KeepRestorable": "RestorableFilesExist",
        },
    ),
    ("Lake", locked(0, 2), {"VacuumLock": "VacuumsApart"}),
    (
        "Contents",
        contents(1, 1),
        {"StoreFirst": "NeededContentExists", "AnnounceFirst": "NeededContentExists"},
    ),
    (
        "Contents",
        contents(1, 1, Droppers=1),
        {
            "CheckAnnounced": "NothingAnnouncedIsNamed",
            "KeepAnnounced": "NothingAnnouncedIsNamed",
            "LookAgain": "NothingAnnouncedIsNamed",
            "UndropChecksAnnounced": "RestorableContentExists",
        },
    ),
    (
        "Contents",
        contents(1, 2),
        {
            "KnownByLists": "NothingAnnouncedIsNamed",
            "LostListRefuses": "NothingAnnouncedIsNamed",
            "NamesOnce": "NeededContentExists",
        },
    ),
    (
        "Contents",
        contents(0, 1, Readers=1, Passers=1, Droppers=1),
        {"HeldByLeases": "ReadersKeepTheirContent", "AgeByLists": "ReadersKeepTheirContent"},
    ),
    (
        "History",
        history(0, 2, 2),
        {"CheckUnmoved": "NoEntryBreaksTheLog", "CheckUnmovedSincePlan": "NoEntryBreaksTheLog"},
    ),
    (
        "History",
        history(1, 1, 2),
        {
            "FreezeChecksReadable": "VersionsReadTheSame",
            "DropChecksFrozen": "VersionsReadTheSame",
            "KeepDeleted": "RetainedHistoryReads",
        },
    ),
    (
        "Index",
        index(1, 1, 1),
        {
            "FilesBeforeMarker": "MarkerImpliesItsFiles",
            "MarkerDeletedFirst": "MarkerImpliesItsFiles",
            "LeasesListedLast": "LiveReadersKeepTheirIndex",
            "MakersHoldLeases": "MarkerImpliesItsFiles",
            "MarkerReadAgain": "MarkerImpliesItsFiles",
            "FilesLookedFor": "NobodyTrustsAnEmptyMarker",
        },
    ),
    (
        "Changes",
        changes(1),
        {
            "RowLock": "LockedRowsAsRead",
            "CompareOnCommit": "LockedRowsAsRead",
            "AllAsked": "ChangedAsAsked",
            "SameTable": "ChangesAreOfTheirTable",
            "SameTableAgain": "ChangesAreOfTheirTable",
            "VersionOfWhatIsLeft": "VersionsAreOfTheirState",
        },
    ),
    ("Changes", changes(1, Attempts=1), {"OwnRowsOnly": "RefusedForAReason"}),
    (
        "LakeVersions",
        lake_versions(2, 2),
        {
            "LookTwice": "CutsAreOfOneMoment",
            "ListAgain": "CutsAreOfOneMoment",
            "FreezeAtCut": "NamedVersionsAreOfTheCut",
            "VersionsFirst": "NamedVersionsExist",
            "PutIfAbsent": "NumbersAreWrittenOnce",
        },
    ),
    (
        "Pointer",
        pointer(1, 1, 1, 1, 2),
        {
            "DraftAgain": "PointersNameVersions",
            "Unmoved": "NoMoveIsLost",
            "VersionThere": "PointersNameVersions",
            "NotPointed": "PointersNameVersions",
            "SinceItBegan": "NoMoveIsLost",
            "SignFirst": "SignersPointAtSigned",
            "ManifestLast": "ReadersSeeCommitted",
        },
    ),
    ("Pointer", pointer(1, 1, 0, 0, 4), {"DeletedKeepNotes": "PointersAreAsTheLog"}),
    (
        "Replay",
        replay(2, 1, 0, 2, 2, keyed=False),
        {
            "RowsFirst": "RecordsAreSomewhere",
            "Conditional": "RowsComeOnce",
            "LogSays": "RowsComeOnce",
            "ByBlock": "RecordsAreSomewhere",
        },
    ),
    ("Replay", replay(1, 1, 1, 1, 1, keyed=True), {"NotOlder": "NewerRowsStay"}),
    ("Replay", replay(1, 1, 0, 2, 2, keyed=False, copies=1), {"ById": "RecordsAreSomewhere"}),
    (
        "Turns",
        turns(),
        {"LockRecheck": "AcknowledgedInLog", "ReadBackEntry": "AcknowledgedInLog"},
    ),
]
"""Rules that can be switched off, and the invariants that fail then; each group is one run."""
_TIMES: Sequence[tuple[str, int, str]] = [
    ("SettleTime", 1, "Wait"),
    # The assumption that docs/internals/promises.md names: a writer that stalls for longer than
    # the others wait may write over what they committed.
    ("Held", 5, "Held"),
]
"""Times of Turns with which what was acknowledged is lost."""


def mutants() -> list[Check]:
    """All of them, on lakes as small as can be; most runs look at several."""
    return [
        *(_together(module, constants, breaks) for module, constants, breaks in _RULES),
        *(_together("Erase", constants, breaks) for constants, breaks in ERASE_MUTANTS),
        *(
            _together("Publish", {**constants, "Mutants": _off(breaks)}, breaks)
            for constants, breaks in PUBLISH_MUTANTS
        ),
        *(
            Check(
                f"without {name}",
                "Turns",
                turns(**{constant: value}),
                ("AcknowledgedInLog",),
                violates="AcknowledgedInLog",
            )
            for name, value, constant in _TIMES
        ),
        Check(
            "without TakeOver",
            "Lake",
            {**locked(0, 2), "TakeOver": False},
            properties=("VacuumsEnd",),
            violates="VacuumsEnd",
            specification="LiveSpec",
        ),
    ]


def _together(module: str, constants: Mapping[str, object], breaks: Mapping[str, str]) -> Check:
    return Check("without " + ", ".join(breaks), module, constants, breaks=breaks)


def _off(rules: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{rule}"' for rule in rules) + "}"


def rules_of(check: Check) -> dict[str, str]:
    """Of each rule that a mutant is without, what fails."""
    return dict(check.breaks) or {check.name.removeprefix("without "): check.violates}
