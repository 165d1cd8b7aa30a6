"""The certificate of an erasure: what was asked, done and searched, and what remains.

It contains counts, places, and facts of the log, and no value of the rows: no id and no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from singerlake.format import times
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.names import TableName
from singerlake.format.signed_text import armored, key_of, signed_text
from singerlake.lake import Lake, Table
from singerlake.log.commit import SOFTWARE, current_user
from singerlake.ops.erase.check import PUBLISHED, PublishedPlace, Report, check
from singerlake.ops.erase.dead_letters import DeadLetters
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.sought import Key, KeyNames, Sought
from singerlake.ops.erase.table import EraseRequest
from singerlake.ops.erase.tables import Erased

KIND = "singerlake-erasure-1"
ELSEWHERE = (
    "backups, copies of the lake, and snapshots of disks or buckets",
    "databases loaded from the lake, and data that others derived from it",
    "the source, from which a later sync may bring the rows again",
)
"""What no erasure reaches."""
_TEXT = {
    "what": "text of logs, annotations and lake versions that names the rows, if there is any",
    "why": "--allow-text-mentions erased without changing it: search for texts of the person, too",
}


def certificate(
    lake: Lake,
    asked: Sequence[EraseRequest],
    options: EraseOptions,
    done: Erased,
    places: Sequence[PublishedPlace] = (),
    progress: Callable[[Report], None] = lambda _: None,
    *,
    words: bool = True,
) -> dict[str, Any]:
    """Search the lake for the rows, and certify what an erasure did.

    Args:
        asked: What was to be erased.
        done: What was done.
        places: Published places that are searched as well.
        progress: Told after each object that is searched.
        words: Whether the erasure would have been refused for text that names a row.

    Returns:
        Plain data for JSON.

    Raises:
        SingerlakeError: A log cannot be read, or the store does not list what it has.
    """
    searched = {
        one.table.name: search
        for one in asked
        if (search := _search(lake, one.table, done.ids.get(one.table.name, ()), places, progress))
    }
    return {
        "certificate": KIND,
        "software": SOFTWARE,
        "time": times.iso(times.now()),
        "by": current_user(),
        "lake": lake.store.uri,
        "complete": done.is_done and all(one.is_clean for one in searched.values()),
        "asked": {**_asked(asked, options), "text_mentions_allowed": not words},
        "erased": [_erased(one.table, options, done) for one in asked],
        "published": [
            {"projection": one.projection, "rebuilt": one.error is None} for one in done.published
        ],
        "searched": [_found(name, report) for name, report in searched.items()],
        "remains": [*_remains(lake, asked, options, done, searched), *([] if words else [_TEXT])],
        "proofs": [_proofs(one.table, options) for one in asked],
    }


def _asked(asked: Sequence[EraseRequest], options: EraseOptions) -> dict[str, Any]:
    return {
        "reason": options.reason,
        "tables": [
            {
                "table": str(one.table.name),
                "rows": "those of a condition" if one.where else f"{len(one.ids)} by their ids",
            }
            for one in asked
        ],
        "keys_blocked": options.block,
        "downstream_notified": options.tell_seconds > 0,
        "object_versions_purged": options.earlier_versions,
    }


def _entries(table: Table, options: EraseOptions) -> list[Entry]:
    """The erasures of this request: also of a run that died before it could certify."""
    return [
        entry
        for entry in table.entries()
        if entry.operation == Operation.ERASE
        and entry.erasure is not None
        and entry.erasure.reason == options.reason
    ]


def _erased(table: Table, options: EraseOptions, done: Erased) -> dict[str, Any]:
    now = done.tables[table.name]
    return {
        "table": str(table.name),
        "transactions": [
            {
                "transaction": entry.number,
                "time": entry.time,
                "by": entry.erasure.by,
                "rows": entry.erasure.keys,
                "row_versions": entry.erasure.lines,
                "blocks_rewritten": len(entry.moved),
                "versions": [
                    {"version": one.version, "rows_before": one.rows_before, "rows": one.rows}
                    for one in entry.erased
                ],
            }
            for entry in _entries(table, options)
            if entry.erasure is not None
        ],
        "objects_deleted": now.files_deleted,
        "bytes_deleted": now.bytes_deleted,
        "object_versions_deleted": sum(
            one.deleted for one in done.earlier if one.table == table.name
        ),
    }


def _search(
    lake: Lake,
    table: Table,
    ids: Sequence[str],
    places: Sequence[PublishedPlace],
    progress: Callable[[Report], None],
) -> Report | None:
    head = table.snapshot(dropped=True)
    if not ids or not head.key:
        return None
    names = KeyNames.of(head)
    sought: list[Sought] = [Key(f"key {number}", key, names) for number, key in enumerate(ids, 1)]
    return check(lake, sought, table.name, progress, places)


def _found(name: TableName, report: Report) -> dict[str, Any]:
    return {
        "rows_of": str(name),
        "objects": report.objects,
        "bytes": report.bytes,
        "found": [
            {
                # A published file's name may contain values of a column.
                "object": None if one.kind == PUBLISHED else one.key,
                "version": one.version,
                "is": one.words,
                "count": one.count,
            }
            for one in report.found
        ],
        "not_read": [asdict(one) for one in report.not_read],
        "only_bytes_searched": dict(report.packed),
    }


def _remains(
    lake: Lake,
    asked: Sequence[EraseRequest],
    options: EraseOptions,
    done: Erased,
    searched: Mapping[TableName, Report],
) -> list[dict[str, str]]:
    found = [(what, "an erasure does not change it") for what in ELSEWHERE]
    for one in asked:
        name, table = one.table.name, done.tables[one.table.name]
        if table.told_until:
            why = f"deletion notices need them until {table.told_until[:19]}Z"
            found.append((f"keys of the rows of {name}", why))
        if options.block:
            found.append((f"keyed hashes of the keys of {name}", "rows with them are rejected"))
        found += [(item.key, item.reason) for item in table.left]
        if name not in searched:
            found.append((f"rows of {name}", "they were not searched for: see the guide"))
    for name, report in searched.items():
        if letters := DeadLetters(lake, name).all:
            why = "keys are searched for in JSON objects only: search for texts of the person, too"
            found.append((f"rejected lines in {', '.join(map(str, letters))}", why))
        found += [
            (f"rows in {other} with the same keys", "they may belong to somebody else: check them")
            for other in sorted(report.alike)
        ]
        if report.found or report.not_read:
            why = "the search found them, or could not read all objects"
            found.append((f"rows of {name}", why))
        found += [(note, "the search noted it") for note in report.notes]
    found += [(f"rows in {name}", "its condition does not hold for them") for name in done.left]
    found += [
        (f"{one.objects} earlier versions of objects of {one.table}", one.why or "not purged")
        for one in done.earlier
        if one.objects or one.why
    ]
    failed = (one for one in done.published if one.error is not None)
    found += [(f"the published copy {one.projection}", "it could not be rebuilt") for one in failed]
    # The searches of several tables may find the same.
    return [{"what": what, "why": why} for what, why in dict.fromkeys(found)]


def _proofs(table: Table, options: EraseOptions) -> dict[str, Any]:
    """Name the log entries that have the fingerprints, and signatures over these.

    The fingerprints themselves stay in the log, where a later erasure can remove them.
    """
    head = table.snapshot(dropped=True)
    entries = _entries(table, options)
    touched = {one.version for entry in entries for one in entry.erased}
    return {
        "table": str(table.name),
        "log": [{"transaction": entry.number, "chain": entry.chain} for entry in entries],
        "versions": [
            _proof(table.name, one)
            for one in (*head.earlier_versions, *head.frozen)
            if one.number in touched
        ],
    }


def _proof(table: TableName, version: FrozenVersion) -> dict[str, Any]:
    return {
        "version": version.number,
        "rows": version.rows,
        "signatures": [
            {
                "key": key_of(note.signature),
                "text": signed_text(table, version, note).decode(),
                "signature": armored(note.signature),
            }
            for note in version.signed
        ],
    }
