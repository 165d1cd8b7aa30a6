"""The common parts of commands that change rows: their reports of a change."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msgspec import structs

from singerlake.format.names import TableName
from singerlake_cli import output

if TYPE_CHECKING:
    from singerlake.format.log import FrozenVersion
    from singerlake.ops.change.job import Changed


def as_json(table: TableName, done: Changed, *, dry_run: bool) -> dict[str, Any]:
    """Return what a change did, as a document."""
    version = None if done.version is None else structs.asdict(done.version)
    return {"table": str(table), **asdict(done), "version": version, "dry_run": dry_run}


def print_done(table: TableName, done: Changed, *, dry_run: bool) -> None:
    """Report what a change did, or would do."""
    parts = [
        f"{output.count(count, 'row')} {word}" if n == 0 else f"{count:,} {word}"
        for n, (count, word) in enumerate(_counts(done))
    ]
    counts = ", ".join(parts)
    if dry_run:
        output.say(f"{table} (dry run): {counts}")
    elif done.transaction is None:
        output.say(f"{table}: nothing to change, and nothing was committed: {counts}")
    else:
        output.say(f"{table}, transaction {done.transaction}: {counts}")
    if done.whole:
        tense = "would be" if dry_run else "were"
        output.say(
            f"the table has no key, so all its rows {tense} written again, after ACTIVATE_VERSION: "
            "a target that resumes from its bookmark must support this message"
        )
    print_version(done.version)


def print_version(version: FrozenVersion | None) -> None:
    """Report the version that was frozen in the same transaction, if one was."""
    if version is None:
        return
    name = f" ({version.label})" if version.label else ""
    output.say(
        f"frozen as version {version.number}{name}: {output.count(version.rows, 'row')}, "
        f"fingerprint {output.short_proof(version.fingerprint)}"
    )


def _counts(done: Changed) -> list[tuple[int, str]]:
    told = [
        (done.inserted, "inserted"),
        (done.updated, "updated"),
        (done.deleted, "deleted"),
        (done.unchanged, "unchanged"),
    ]
    if done.absent:
        told.append((done.absent, "not found"))
    if done.blocked:
        told.append((done.blocked, "dropped because their keys are blocked"))
    return told
