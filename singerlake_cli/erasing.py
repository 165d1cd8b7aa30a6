"""`singerlake erase` without --search: the rows, the obstacles, and the report."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from singerlake import small_files
from singerlake.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UsageError,
)
from singerlake.ops.erase.plan import EraseOptions
from singerlake.spreadsheet_cells import is_inert
from singerlake_cli import output
from singerlake_cli.lake_versions import signed_words
from singerlake_cli.shared import Shared
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.format.names import TableName
    from singerlake.lake import Lake
    from singerlake.ops.erase.certificate_files import CertificateFiles
    from singerlake.ops.erase.earlier import Earlier
    from singerlake.ops.erase.plan import Erased as OfTable
    from singerlake.ops.erase.table import EraseRequest
    from singerlake.ops.erase.tables import Erased

ELSEWHERE = "copies of the lake, backups, and data derived elsewhere are not searched"
UNTOLD = (
    "downstream targets are not notified: they keep the rows until you delete them there; "
    "--notify-downstream 30d has taps emit deletions, and keeps the keys that long (--no-notify "
    "leaves this note out)"
)
NOTHING = (
    "nothing was changed: check that the ids are those in _row_id (singerlake query "
    "--row-metadata), and that this is the right table; if a search still finds the rows, they "
    "are in orphan files; delete them with: singerlake vacuum TABLE --retain 0s "
    "--no-retention-guard"
)
_WHERE = re.compile(
    r"\s*(?P<table>.+?)(?:\s+where\s+(?P<condition>.+?))?\s*", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Asked:
    """The options of the command line.

    Attributes:
        where: A condition in SQL.
        file: A file of ids, one a line.
        words: Whether words in log entries are in the way.
        no_notify: Whether the note is left out that downstream targets are not notified.
        others: More tables, ``TABLE`` or ``TABLE where CONDITION``.
        certificate: The name of the files of a certificate.
    """

    ids: tuple[str, ...]
    where: str | None
    file: str | None
    options: EraseOptions
    words: bool
    no_notify: bool = False
    others: tuple[str, ...] = ()
    projections: Path | None = None
    certificate: Path | None = None


def erase(shared: Shared, table: str, asked: Asked, choice: EngineChoice) -> int:
    """Erase rows, or report the rows that would be erased.

    Args:
        shared: The lake, and the output for the result.
        table: The table that the command names.
        choice: The engines that may read and write rows.

    Returns:
        The exit code.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    asked.options.check()
    ids = _ids(asked)
    files = _certificate_files(asked)
    lake = shared.lake()
    from singerlake.ops.erase import tables

    first = tables.requests(lake, {table: None}, ids, asked.where)
    rows = [*first, *tables.requests(lake, _others(asked.others), ids, asked.where)]
    with working(f"erasing rows of {', '.join(str(one.table.name) for one in rows)}"):
        done = tables.erase(
            lake, rows, asked.options, choice, words=asked.words, projections=asked.projections
        )
    shared.output.note(ELSEWHERE)
    if lake.store.not_listed:
        shared.output.note(lake.store.not_listed)
    told = asked.no_notify or asked.options.tell_seconds
    if not told and any(one.lines for one in done.tables.values()):
        shared.output.note(UNTOLD)
    shared.output.result(lambda: _as_json(done, asked.options), lambda: _print(done, asked.options))
    for outcome in done.published:
        if outcome.error is not None:
            shared.output.error(outcome.error, outcome.projection)
    for name, error in done.unsigned.items():
        shared.output.error(error, name)
    complete = True
    if files is not None:
        complete = _certify(shared, lake, rows, asked, done, files)
    if not complete or not (asked.options.dry_run or done.is_done):
        return ConflictError.exit_code
    return 0 if done.found else NotFoundError.exit_code


def _certificate_files(asked: Asked) -> CertificateFiles | None:
    """Return the files of the certificate, which are checked before anything starts."""
    if asked.certificate is None:
        return None
    if asked.options.dry_run:
        raise UsageError("--certificate certifies an erasure: leave --dry-run out")
    from singerlake.ops.erase.certificate_files import CertificateFiles

    return CertificateFiles(asked.certificate, signed=asked.options.signer is not None)


def _certify(
    shared: Shared,
    lake: Lake,
    rows: Sequence[EraseRequest],
    asked: Asked,
    done: Erased,
    files: CertificateFiles,
) -> bool:
    """Search the lake for the rows, and write the certificate; tell whether nothing is left."""
    from singerlake.ops.erase.certificate_files import certify

    with working("reading the whole lake for the certificate"):
        certified = certify(
            lake, rows, asked.options, done, files, asked.projections, words=asked.words
        )
    shared.output.note(f"certificate: {', '.join(map(str, files.paths))}")
    return bool(certified.certificate and certified.certificate["complete"])


def _others(texts: Sequence[str]) -> dict[str, str | None]:
    """Parse the tables of --table, with their conditions."""
    found: dict[str, str | None] = {}
    for text in texts:
        match = _WHERE.fullmatch(text)
        if match is None or match["table"] in found:
            raise UsageError(f"--table takes a TABLE once, or 'TABLE where CONDITION': {text!r}")
        found[match["table"]] = match["condition"]
    return found


def _ids(asked: Asked) -> list[str]:
    """Return the ids, from the command line or a file.

    Raises:
        UsageError: Nothing says which rows, or several things do.
    """
    given = {"--key": bool(asked.ids), "--where": asked.where is not None}
    given["--from"] = asked.file is not None
    said = [option for option, there in given.items() if there]
    if len(said) != 1:
        raise UsageError("select rows with one of --key, --where and --from")
    if asked.file is None:
        return [*dict.fromkeys(asked.ids)]
    return [*dict.fromkeys(ids_of(asked.file))]


def ids_of(file: str) -> list[str]:
    """Read ids, one on each line; the arguments and errors are those of :func:`lines_of`.

    Raises:
        UsageError: The file is rather a table of rows, or made for spreadsheets: an id that is
            read as another one would be found nowhere, or be somebody else's.
    """
    ids = lines_of(file, "id")
    if next(csv.reader([ids[0]]), [])[:1] == ["_row_id"]:
        raise UsageError(
            f"{file} begins with column names, and erase reads only ids, one per line: remove that "
            "line, and all columns except _row_id"
        )
    for number, one in enumerate(ids, 1):
        if is_inert(one):  # it is not repeated: what is printed may be kept longer than the row
            raise UsageError(
                f"id {number} of {file} begins with ' as --safe-cells writes it: write the ids "
                "without --safe-cells; one that has the ' itself is given with --key"
            )
    return ids


def lines_of(file: str, what: str) -> list[str]:
    """Read entries from a file or standard input, one on each line.

    Args:
        file: The file; ``-`` for standard input.
        what: The message's word for a line.

    Raises:
        NotFoundError: There is no such file.
        InputError: It cannot be read, or is not UTF-8.
        UsageError: No line has anything, or there is no end to them.
    """
    try:
        if file == "-":
            data = small_files.read_open(sys.stdin.buffer, "standard input", f"{what}s")
        else:
            data = small_files.read(Path(file), f"{what}s")
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


def _print(done: Erased, options: EraseOptions) -> None:
    for name, one in done.tables.items():
        _print_table(name, one, would=options.dry_run)
    for projection in done.due if options.dry_run else ():
        output.say(f"{projection} would be rebuilt, including its frozen versions")
    for outcome in done.published:
        if outcome.error is None:
            for line in outcome.words():
                output.say(line)
    _print_signed(done)
    for left in done.left:
        output.say(
            f"{left} still contains these rows: its condition does not hold for all of them; erase "
            "these as well"
        )
    for kept in done.earlier:
        _print_earlier(kept)
    if not done.found:
        output.say(NOTHING)
    elif done.is_done and not options.dry_run:
        first = next(iter(done.tables))
        output.say(f"check that nothing is left with: singerlake erase --search {first} --key …")


def _print_signed(done: Erased) -> None:
    for name, signed in done.signed.items():
        for one in signed:
            output.say(signed_words(name, one))


def _print_earlier(one: Earlier) -> None:
    versions = output.count(one.deleted, "earlier version")
    if one.deleted:
        output.say(f"{versions} of objects of {one.table} deleted")
    if one.objects:
        what = f"{output.count(one.objects, 'earlier version')} ({output.size(one.bytes)})"
        do = one.why or "delete them by the same command with --purge-object-versions"
        output.say(
            f"the bucket keeps {what} of objects of {one.table}, which may contain rows: {do}"
        )
    elif one.why:
        output.say(f"cannot determine whether the bucket keeps earlier versions: {one.why}")


def _print_table(table: TableName, done: OfTable, *, would: bool) -> None:
    rows = output.count(done.keys, "row")
    lines = output.count(done.lines, "row version")
    blocks = f"{output.count(done.blocks, 'block')}, {output.count(done.files, 'file')}"
    if not done.lines:
        verb = "has" if would else "had"
        output.say(f"{table} {verb} no such row, at any time")
    elif would:
        output.say(f"{rows} of {table} would be erased: {lines} in {blocks}")
    else:
        output.say(
            f"{rows} of {table} erased (transaction {done.transaction}): {lines} in {blocks}"
        )
    if done.told_until:
        output.say(
            "targets that resume from an older bookmark are notified until "
            f"{done.told_until[:19]}Z; until then their keys are stored, and a search finds them"
        )
    if done.blocked:
        verb = "would be blocked" if would else "blocked"
        output.say(
            f"{output.count(done.blocked, 'key')} {verb}: rows with these keys are dropped "
            "from now on"
        )
    for one in done.versions:
        verb = "would have" if would else "has"
        output.say(f"version {one.version} {verb} {one.rows:,} rows, of {one.rows_before:,}")
    if done.files_deleted:
        freed = output.size(done.bytes_deleted)
        output.say(f"deleted {output.count(done.files_deleted, 'object')} ({freed})")
    for item in done.left:
        output.say(f"not deleted yet: {item.key}: {item.reason}")
    if done.left:
        output.say("run it again after that: until then, these objects may contain the rows")


def _as_json(done: Erased, options: EraseOptions) -> dict[str, Any]:
    from singerlake_cli.publishing import as_json  # late: it needs Arrow

    first, *others = (_table_as_json(name, one) for name, one in done.tables.items())
    return {
        **first,
        "dry_run": options.dry_run,
        "also": others,
        "published": [as_json(outcome) for outcome in done.published],
        "due": [*done.due],
        "signed": [
            {"table": str(name), "version": one.version.number, **structs.asdict(one.signature)}
            for name, signed in done.signed.items()
            for one in signed
        ],
        "still_with_rows": [str(name) for name in done.left],
        "earlier_versions": [{**asdict(one), "table": str(one.table)} for one in done.earlier],
    }


def _table_as_json(table: TableName, done: OfTable) -> dict[str, Any]:
    return {
        "table": str(table),
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
