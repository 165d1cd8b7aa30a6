"""What `singerlake erase` does without --check: which rows, what is in the way, what is told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from singerlake.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.lake import Lake, Table
from singerlake.maintenance.erase import Erased, EraseOptions, check_erasable
from singerlake.maintenance.vacuum import VacuumOptions
from singerlake.transactions.snapshot import Snapshot
from singerlake_cli import output
from singerlake_cli.shared import Shared, begin_spark, start_spark
from singerlake_cli.working import working

ELSEWHERE = (
    "copies of the lake, backups, earlier versions of objects in a bucket, and what others made of "
    "the rows are not looked at"
)

UNTOLD = (
    "taps that read this table are told nothing: what targets have of the rows stays there until "
    "somebody deletes it; --tell 30d tells them, and keeps the keys that long (--silent leaves "
    "this note out)"
)


Cluster: TypeAlias = "tuple[str | None, tuple[str, ...]]"
"""Spark's master, and its settings."""


@dataclass(frozen=True)
class Asked:
    """What the command line says.

    Attributes:
        ids: Rows' ids.
        where: A condition in SQL.
        file: A file of ids, one a line.
        options: How, and why.
        words: Whether words in log entries are in the way.
        silent: Whether it is said that nobody is to be told.
    """

    ids: tuple[str, ...]
    where: str | None
    file: str | None
    options: EraseOptions
    words: bool
    silent: bool = False


def erase(shared: Shared, table: str, asked: Asked, cluster: Cluster) -> int:
    """Erase rows, or say what would be erased.

    Returns:
        The exit code.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    asked.options.check()
    ids = _ids(asked)
    lake = shared.lake()
    found, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a version: rows go from all of the table, so name that alone")
    head = found.snapshot()
    check_erasable(head, asked.options)
    from singerlake.erasure import obstacles

    obstacles.check_unpublished(lake, found)
    if ids and head.key:
        obstacles.check_reason(asked.options.reason, ids)
        _check_clear(lake, found, head, ids, words=asked.words)
    done = _erased(lake, found, ids, asked, cluster)
    shared.output.note(ELSEWHERE)
    if not asked.silent and not asked.options.tell_seconds and done.lines:
        shared.output.note(UNTOLD)
    shared.output.result(
        lambda: _as_json(found, done, asked.options), lambda: _print(found, done, asked.options)
    )
    return ConflictError.exit_code if done.left and not asked.options.dry_run else 0


def _check_clear(
    lake: Lake, table: Table, head: Snapshot, ids: Sequence[str] | None, *, words: bool
) -> None:
    from singerlake.erasure import obstacles

    obstacles.refuse(table.name, obstacles.of_rows(lake, table, head, ids, words=words))


def _erased(
    lake: Lake,
    table: Table,
    ids: Sequence[str],
    asked: Asked,
    cluster: Cluster,
) -> Erased:
    begin_spark(*cluster)
    from singerlake.spark.jobs.maintenance.erase import erase as erase_rows
    from singerlake.spark.jobs.maintenance.erased_lines import AskedRows

    def clear(head: Snapshot, some: Sequence[str] | None) -> None:
        _check_clear(lake, table, head, some, words=asked.words)

    with working(f"erasing rows of {table.name}"):
        return erase_rows(
            lambda: start_spark(*cluster),
            table,
            AskedRows(tuple(ids), asked.where),
            asked.options,
            clear=clear,
        )


def _ids(asked: Asked) -> list[str]:
    """The ids, from the command line or a file.

    Raises:
        UsageError: Nothing says which rows, or several things do.
    """
    given = {"--key": bool(asked.ids), "--where": asked.where is not None}
    given["--from"] = asked.file is not None
    said = [option for option, there in given.items() if there]
    if len(said) != 1:
        raise UsageError("say which rows with one of --key, --where and --from")
    if asked.file is None:
        return [*dict.fromkeys(asked.ids)]
    return [*dict.fromkeys(lines_of(asked.file, "id"))]


def unblock(
    shared: Shared, table: str | None, keys: Sequence[str], file: str | None, *, every: bool
) -> None:
    """Let rows in again whose keys are blocked.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    if table is None:
        raise UsageError("name the TABLE whose keys are to be let in again")
    if sum((bool(keys), file is not None, every)) != 1:
        raise UsageError("say which keys are to be let in with one of --key, --from and --all")
    from singerlake.maintenance.blocking import unblock as let_in

    found, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a version: keys are blocked in a table, so name that alone")
    ids = None if every else [*keys, *(lines_of(file, "id") if file is not None else [])]
    with working(f"letting rows of {found.name} in again"):
        after, count = let_in(found.store, found.snapshot(dropped=True), ids, VacuumOptions())
    left = after.blocked.keys if after.blocked is not None else 0
    shared.output.result(
        lambda: {
            "table": str(found.name),
            "transaction": after.number,
            "keys_let_in": count,
            "keys_blocked": left,
        },
        lambda: output.say(
            f"{output.count(count, 'key')} of {found.name} let in again (transaction "
            f"{after.number}); {output.count(left, 'key')} blocked"
        ),
    )


def stop_telling(shared: Shared, table: str | None) -> None:
    """Delete what is kept to tell readers of erased rows, before its time.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    if table is None:
        raise UsageError("name the TABLE whose erased rows nobody is to be told of any more")
    from singerlake.maintenance.blocking import stop_telling as stop

    found, _ = shared.lake().find(table)
    count = stop(found.store, found.snapshot(dropped=True), VacuumOptions())
    shared.output.result(
        lambda: {"table": str(found.name), "notices_deleted": count},
        lambda: output.say(
            f"{output.count(count, 'notice')} of rows erased from {found.name} deleted: readers "
            "are told nothing more"
        ),
    )


def blocked_notes(table: Table, ids: Sequence[str]) -> list[str]:
    """Say which of some keys are blocked, in the order in which they were given."""
    head = table.snapshot(dropped=True)
    if head.blocked is None or head.dropped_at:
        return []
    from singerlake.maintenance.blocking import are_blocked

    try:
        found = are_blocked(table.store, head, ids)
    except SingerlakeError as error:
        return [f"whether these keys of {table.name} are blocked is not known: {error}"]
    return [
        f"key {number} is blocked in {table.name}: a keyed hash of it is kept, by which who can "
        "read the lake can confirm a guess"
        for number, is_blocked in enumerate(found, 1)
        if is_blocked
    ]


def lines_of(file: str, what: str) -> list[str]:
    """Read what somebody wrote into a file, or hands over on standard input, one on each line.

    Args:
        file: The file; ``-`` for standard input.
        what: What a line is, for the message.

    Raises:
        NotFoundError: There is no such file.
        InputError: It cannot be read, or is not UTF-8.
        UsageError: No line has anything.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = [line for line in data.decode().splitlines() if line.strip()]
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {file}") from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8") from error
    if not lines:
        raise UsageError(f"{file} has no {what}: write one on each line")
    return lines


def _print(table: Table, done: Erased, options: EraseOptions) -> None:
    would = options.dry_run
    rows = output.count(done.keys, "row")
    lines = output.count(done.lines, "row version")
    blocks = f"{output.count(done.blocks, 'block')}, {output.count(done.files, 'file')}"
    if not done.lines:
        verb = "has" if would else "had"
        output.say(f"{table.name} {verb} no such row, at any time")
    elif would:
        output.say(f"{rows} of {table.name} would be erased: {lines} in {blocks}")
    else:
        output.say(
            f"{rows} of {table.name} erased (transaction {done.transaction}): {lines} in {blocks}"
        )
    if done.told_until:
        output.say(
            f"readers behind it are told to delete them until {done.told_until[:19]}Z; until then "
            "their keys are kept, and the check finds them"
        )
    if done.blocked:
        verb = "would be blocked" if would else "blocked"
        output.say(f"{output.count(done.blocked, 'key')} {verb}: no row may come with one again")
    for one in done.versions:
        verb = "would have" if would else "has"
        output.say(f"version {one.version} {verb} {one.rows:,} rows, of {one.rows_before:,}")
    if done.files_deleted:
        freed = output.size(done.bytes_deleted)
        output.say(f"deleted {output.count(done.files_deleted, 'object')} ({freed})")
    for item in done.left:
        output.say(f"not deleted yet: {item.key}: {item.reason}")
    if done.left:
        output.say("run it again when that is over: until then these objects may hold the rows")
    elif not would:
        output.say(f"see that nothing is left with: singerlake erase --check {table.name} --key …")


def _as_json(table: Table, done: Erased, options: EraseOptions) -> dict[str, Any]:
    return {
        "table": str(table.name),
        "dry_run": options.dry_run,
        "transaction": done.transaction,
        "rows": done.keys,
        "row_versions": done.lines,
        "blocks": done.blocks,
        "files": done.files,
        "versions": [
            {"version": one.version, "rows_before": one.rows_before, "rows": one.rows}
            for one in done.versions
        ],
        "files_deleted": done.files_deleted,
        "bytes_deleted": done.bytes_deleted,
        "told_until": done.told_until,
        "keys_blocked": done.blocked,
        "left": [asdict(item) for item in done.left],
    }
