"""What TLC is asked of the module Publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.tlc import Check

PUBLISH = (
    "PointerIsWhole",
    "FoldersAreExact",
    "RowsAreTheSources",
    "PositionsNeverGoBack",
    "AcknowledgedIsSeen",
    "ReadersKeepTheirFiles",
    "VersionsReadTheSame",
    "NothingOfOthersIsDeleted",
    "LeftoversAreKnown",
)
PUBLISH_RULES = (
    *("Condition", "BaseFirst", "SameTable", "ReadableFrom", "CompareTouched"),
    *("FilesFirst", "CompleteFolders", "ClearFirst", "NamesOnce", "SpareTheLiving"),
    *("KeepCoversReads", "VersionsBeside", "VersionClaim", "KeepVersions", "OwnNames"),
    *("ClaimLast", "PointerFirst", "RemoveAgain", "LookBack", "Withdraw", "WithdrawChecks"),
)


def publish(kind: str, publishers: int, runs: int, **more: object) -> dict[str, object]:
    """Constants of the module Publish with every rule in force.

    Args:
        kind: Of place: ``folders``, ``log`` or ``stage``.
        publishers: How many.
        runs: How often they begin, all together.
        more: Readers, removers, and what becomes of the source.
    """
    source = dict.fromkeys(("MaxDrops", "MaxFloors", "MaxFreezes", "MaxTouches"), 0)
    return {
        "Kind": f'"{kind}"',
        "Publishers": publishers,
        "Readers": 0,
        "Removers": "{}",
        "None": "None",
        "MaxRuns": runs,
        "MaxSyncs": 1,
        **source,
        "LateRequests": False,
        "Mutants": '{"none"}',
        **more,
    }


ONE_REMOVER = {"Removers": "{u1}"}
GONE = {"MaxFloors": 1, "MaxDrops": 1}
"""The source loses history, and is begun anew."""
PUBLISH_MUTANTS: Sequence[tuple[Mapping[str, object], Mapping[str, str]]] = [
    (
        publish("folders", 1, 2, **ONE_REMOVER),
        {
            "ClaimLast": "LeftoversAreKnown",
            "Withdraw": "LeftoversAreKnown",
            "RemoveAgain": "PointerIsWhole",
            "PointerFirst": "PointerIsWhole",
            "LookBack": "PointerIsWhole",
        },
    ),
    (
        publish("folders", 1, 2, Readers=1, MaxFreezes=1, MaxTouches=1),
        {
            "CompleteFolders": "PointerIsWhole",
            "VersionsBeside": "PositionsNeverGoBack",
            "KeepVersions": "VersionsReadTheSame",
            "OwnNames": "NothingOfOthersIsDeleted",
            "KeepCoversReads": "ReadersKeepTheirFiles",
        },
    ),
    (
        publish("folders", 1, 2, MaxSyncs=2, MaxFloors=1, MaxDrops=1),
        {
            "SameTable": "RowsAreTheSources",
            "ReadableFrom": "RowsAreTheSources",
            "ClearFirst": "FoldersAreExact",
        },
    ),
    (
        publish("folders", 2, 2),
        {"SpareTheLiving": "PointerIsWhole", "NamesOnce": "PointerIsWhole"},
    ),
    (
        publish("folders", 2, 3, MaxFreezes=1, MaxSyncs=0),
        {"VersionClaim": "VersionsReadTheSame"},
    ),
    (
        publish("folders", 2, 3, MaxFreezes=2, MaxSyncs=0),
        {"WithdrawChecks": "VersionsReadTheSame"},
    ),
    (
        publish("stage", 2, 2, MaxTouches=1),
        {"BaseFirst": "PositionsNeverGoBack", "CompareTouched": "RowsAreTheSources"},
    ),
    (
        publish("log", 2, 3),
        {"Condition": "RowsAreTheSources", "FilesFirst": "PointerIsWhole"},
    ),
]
"""Rules of Publish, and the invariants that fail without them; each line is one run."""


def smallest() -> list[Check]:
    """What must hold, and end, at the smallest places in which all is reached."""
    reached = (*PUBLISH, "AllIsReached")
    return [
        Check("Publish, two", "Publish", publish("folders", 2, 3, LateRequests=True), reached),
        Check(
            "Publish, a reader",
            "Publish",
            publish("folders", 1, 2, Readers=1, MaxSyncs=2),
            reached,
        ),
        Check("Publish, versions", "Publish", publish("folders", 1, 3, MaxFreezes=1), reached),
        Check(
            "Publish, a removal",
            "Publish",
            publish("folders", 1, 2, MaxTouches=1, **ONE_REMOVER),
            reached,
        ),
        Check("Publish, a log", "Publish", publish("log", 2, 2, MaxFreezes=1), reached),
        Check("Publish, a stage", "Publish", publish("stage", 2, 2, MaxTouches=1), reached),
        Check("Publish, history", "Publish", publish("stage", 1, 2, **GONE), reached),
        Check(
            "Publish, all ends",
            "Publish",
            publish("folders", 1, 2, **ONE_REMOVER),
            properties=("PublishersEnd", "RemovalsEnd"),
            specification="LiveSpec",
        ),
    ]


def full() -> list[Check]:
    """Two publishers at each kind of place; a minute or two."""
    return [
        Check("Publish", "Publish", publish("folders", 2, 3, Readers=1, MaxFreezes=1), PUBLISH),
        Check("Publish, a removal", "Publish", publish("folders", 2, 2, **ONE_REMOVER), PUBLISH),
        Check("Publish, a log", "Publish", publish("log", 2, 3, Readers=1), PUBLISH),
        Check("Publish, a stage", "Publish", publish("stage", 2, 3, MaxTouches=1, **GONE), PUBLISH),
    ]


def large() -> list[Check]:
    """Hours, by option."""
    return [
        Check("Publish", "Publish", publish("folders", 3, 4, Readers=1, MaxFreezes=1), PUBLISH),
    ]
