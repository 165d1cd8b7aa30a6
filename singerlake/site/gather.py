"""From a table's log to its page: metadata alone, one look at each table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from singerlake.annotations.fields import is_url
from singerlake.errors import DataError, UsageError
from singerlake.format import content, file_paths, refused_lines, times
from singerlake.format.annotations import JobRun, TableEntry, TapEntry
from singerlake.format.log import FrozenVersion, Operation
from singerlake.format.metadata import LakeFile, last_sync
from singerlake.format.names import REJECTED, TableName, written
from singerlake.format.overlay_words import differences
from singerlake.format.signed_text import covers, key_of
from singerlake.format.version_notes import SignatureNote
from singerlake.lake import Lake, Table
from singerlake.log import log, versions
from singerlake.log.table_state import TableState
from singerlake.site import columns, paths
from singerlake.site.pages import (
    Column,
    Command,
    Edge,
    Pointer,
    ShownAnnotations,
    Signature,
    TablePage,
    TableSummary,
    Transaction,
    Version,
)

TRANSACTIONS = 100
"""So many of the newest are drawn and listed."""
MOST_POINTERS = 50
"""Pointers of a table that a page names; of more it says how many."""
MOST_SIGNATURES = 10
"""The same of a version's signatures."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_REVERT, _CREATE, _ALTER = (
    one.value for one in (Operation.REVERT, Operation.CREATE, Operation.ALTER)
)


class Gatherer:
    """Makes pages of tables.

    Args:
        lake: The lake.
        known: All its tables: they decide how a person writes a name.
        now: The time by which a table is stale.
        samples: Values of each column to show, from the newest records; 0 for none.
    """

    def __init__(self, lake: Lake, known: set[TableName], now: datetime, samples: int = 0) -> None:
        self._lake = lake
        self._known = known
        self._now = now
        self._samples = samples
        self.file: LakeFile = lake.annotations(strict=True)

    def broken(self, name: TableName, error: Exception) -> TablePage:
        """The page of a table that cannot be read."""
        entry = self.file.table(name)
        summary = TableSummary(
            name=written(name, self._known),
            stream=name.stream,
            path=paths.table(name),
            said=self._said(self.file.tap(name.tap), entry),
            error=str(error),
        )
        return TablePage(tap=name.tap, summary=summary, error=str(error))

    def page(self, table: Table) -> TablePage:
        """A table's page, but for what was made of it.

        Raises:
            NotFoundError: Nothing was ever committed.
            DamagedError: Its log cannot be read.
        """
        snapshot = table.snapshot()
        name = table.name
        tap, entry = self.file.tap(name.tap), self.file.table(name)
        said = self._said(tap, entry)
        shown = self._columns(table, snapshot, said, entry)
        synced = last_sync(snapshot.own_transactions)
        shown_name = written(name, self._known)
        summary = TableSummary(
            name=shown_name,
            stream=name.stream,
            path=paths.table(name),
            records=sum(block.rows for block in snapshot.blocks),
            bytes=sum(block.length for block in snapshot.blocks),
            versions=len(snapshot.frozen),
            columns=sum(column.depth == 0 for column in shown),
            last_sync=synced,
            stale=self._is_stale(said, synced, tap.last_run),
            said=self._description(snapshot, said),
        )
        notes, sources, query = self._special(table, snapshot)
        has_files = content.place_in(snapshot.schema.schema) is not None
        blocks, pointers = snapshot.blocks, _pointers(snapshot)
        return TablePage(
            tap=name.tap,
            summary=summary,
            key=list(snapshot.schema.key_properties),
            columns=shown,
            column_count=len(shown),
            schema_hash=snapshot.schema_hash,
            schema_count=len(snapshot.schemas),
            changes=columns.changes_of(snapshot),
            transactions=_transactions(snapshot, notes),
            transaction_count=len(snapshot.transactions),
            versions=[_version(version, pointers) for version in snapshot.frozen],
            pointers=pointers[:MOST_POINTERS],
            more_pointers=max(0, len(pointers) - MOST_POINTERS),
            sources=sources,
            query=query,
            unpacked_bytes=sum(block.bytes for block in blocks),
            blocks=len(blocks),
            files=len({block.file for block in blocks}),
            waiting_bytes=sum(file.bytes for file in snapshot.dropped.values()),
            first=next((block.first for block in blocks if block.first), None),
            last=next((block.last for block in reversed(blocks) if block.last), None),
            floor=snapshot.floor,
            run=safe_run(tap.last_run),
            commands=all_commands(snapshot, shown_name, has_files, shown),
            has_files=has_files,
            sampled=self._samples,
        )

    def _columns(
        self, table: Table, snapshot: TableState, said: ShownAnnotations, entry: TableEntry
    ) -> list[Column]:
        """Return what a page shows of each column, with samples if they are asked for."""
        shown = columns.columns_for(snapshot, entry.columns)
        if not self._samples:
            return shown
        from singerlake.site.samples import add_samples

        return add_samples(
            table, snapshot, shown, self._samples, said.classification, entry.columns
        )

    def _said(self, tap: TapEntry, entry: TableEntry) -> ShownAnnotations:
        """Return the annotations of a table, or of what it lies in if it has none."""
        own = columns.said_of(entry)
        inherited = {
            name: getattr(own, name) or getattr(tap, name) or getattr(self.file, name)
            for name in ("owner", "freshness", "classification", "deprecated")
        }
        required = [*self.file.requirements, *tap.requirements, *entry.requirements]
        return replace(own, **inherited, requirements=required)

    def _description(self, snapshot: TableState, said: ShownAnnotations) -> ShownAnnotations:
        """The schema's own description, where no person said one."""
        if said.description is not None:
            return said
        own = snapshot.schema.schema.get("description")
        if not isinstance(own, str) or not own.strip():
            return said
        return replace(said, description=own.strip())

    def _is_stale(self, said: ShownAnnotations, synced: str | None, run: JobRun | None) -> bool:
        """Tell whether the last sync is too old; a run that found nothing new counts."""
        if said.freshness is None:
            return False
        try:
            allowed = times.age(said.freshness, "freshness")
        except UsageError:
            return False  # written by hand, or by a newer release
        seen = [synced or ""]
        if run is not None and run.outcome == "succeeded":
            seen.append(run.time)
        last = times.parse(max(seen))
        return last is None or self._now - last > allowed

    def _special(
        self, table: Table, snapshot: TableState
    ) -> tuple[dict[int, str], list[Edge], str | None]:
        """Read what only log entries have: notes by transaction, and what the table was made of."""
        notes = {
            **_notes(snapshot),
            **{v.transaction: f"version {v.number}" for v in snapshot.frozen},
        }
        sources: list[Edge] = []
        query = None
        shown = {t.number for t in snapshot.transactions[-TRANSACTIONS:]}
        for one in snapshot.transactions:
            if one.operation not in (_REVERT, _CREATE, _ALTER):
                continue
            if one.operation != _CREATE and one.number not in shown:
                continue
            try:
                entry = log.read_entry(table.store, table.name, one.number)
            except DataError:
                continue  # the manifest still tells the rest
            if entry is None:
                continue
            if one.operation == _REVERT and "reverted_to" in entry.metadata:
                notes[one.number] = f"back to transaction {entry.metadata['reverted_to']}"
            if one.operation == _ALTER:
                notes[one.number] = _altered(snapshot, one.number)
            if one.operation == _CREATE and one.number >= snapshot.first:
                sources = list(self._edges(entry.metadata.get("sources")))
                said = entry.metadata.get("query")
                query = said if isinstance(said, str) else None
        return notes, sources, query

    def _edges(self, said: Any) -> list[Edge]:
        """The tables that a query read; metadata is a writer's word, and may be anything."""
        found = []
        for one in said if isinstance(said, list) else []:
            if not isinstance(one, dict) or not isinstance(one.get("table"), str):
                continue
            tap, _, stream = one["table"].partition(".")
            name = TableName(tap, stream)
            version, transaction = one.get("version"), one.get("transaction")
            known = name in self._known
            found.append(
                Edge(
                    table=written(name, self._known) if known else one["table"],
                    path=paths.table(name) if known else None,
                    version=version if isinstance(version, int | str) else None,
                    transaction=transaction if isinstance(transaction, int) else 0,
                )
            )
        return found


def _transactions(snapshot: TableState, notes: dict[int, str]) -> list[Transaction]:
    return [
        Transaction(
            number=t.number,
            time=t.time,
            operation=t.operation,
            rows=t.rows,
            bytes=t.bytes,
            note=notes.get(t.number),
        )
        for t in snapshot.transactions[-TRANSACTIONS:]
    ]


def safe_run(run: JobRun | None) -> JobRun | None:
    """A run, its link only where it is one."""
    if run is None or run.url is None or is_url(run.url):
        return run
    return JobRun(
        time=run.time, outcome=run.outcome, rows=run.rows, tables=run.tables, job=run.job,
        scheduler=run.scheduler,
    )  # fmt: skip


def _notes(snapshot: TableState) -> dict[int, str]:
    """Describe moves of pointers, and say which versions were signed, by transaction."""
    notes = {}
    for one in versions.known(snapshot):
        notes.update({note.transaction: f"version {one.number}" for note in one.signed})
        for move in one.pointed:
            moved = "removed from" if move.removed else "to"
            notes[move.transaction] = f"@{move.name} {moved} version {one.number}"
    return notes


def _pointers(snapshot: TableState) -> list[Pointer]:
    """List the pointers of a table, by name."""
    return [
        Pointer(
            name=name,
            version=version.number,
            path=paths.version(snapshot.table, version.number),
            time=move.time,
        )
        for name, (version, move) in versions.pointers(snapshot).items()
    ]


def _version(version: FrozenVersion, pointers: Iterable[Pointer]) -> Version:
    named = [one.name for one in pointers if one.version == version.number]
    signed = version.signed[-MOST_SIGNATURES:]
    return Version(
        number=version.number,
        transaction=version.transaction,
        time=version.time,
        rows=version.rows,
        fingerprint=version.fingerprint,
        record_fingerprint=version.record_fingerprint,
        label=version.label,
        comment=version.comment,
        by=version.by,
        schema_hash=version.schema_hash,
        only_against_accident=version.only_against_accident,
        pointers=named[:MOST_POINTERS],
        signatures=[_signature(version, note) for note in signed],
        more_signatures=len(version.signed) - len(signed),
    )


def _signature(version: FrozenVersion, note: SignatureNote) -> Signature:
    current = covers(version, note)
    return Signature(key=key_of(note.signature), time=note.time, by=note.by, current=current)


def sql_name(name: TableName) -> str:
    """A table as a query writes it."""
    return f"{_sql_part(name.tap)}.{_sql_part(name.stream)}"


def _sql_part(part: str) -> str:
    if _IDENTIFIER.fullmatch(part):
        return part.replace("-", "_")
    return "`" + part.replace("`", "``") + "`"


def commands(name: TableName, shown: str) -> list[Command]:
    """Return commands for a table, ready to be copied into a shell or a notebook."""
    config = f'{{"tap_id": "{name.tap}", "streams": ["{name.stream}"]}}'
    plain = all(_IDENTIFIER.fullmatch(part) for part in (name.tap, name.stream))
    found = [
        Command("Query it", _shell("query", _select(sql_name(name), " limit 10"))),
        Command("Freeze this snapshot as a version", _shell("freeze", shown)),
    ]
    if plain:
        replay = f"tap-singerlake --config {shlex.quote(config)} | target-jsonl"
        found.insert(1, Command("Replay it into any Singer target", replay))
    notebook = f"from singerlake.spark import read_table\n\nframe = read_table({shown!r})"
    found.append(Command("In a notebook", notebook))
    return found


def all_commands(
    snapshot: TableState, shown: str, has_files: bool, columns: Iterable[Column]
) -> list[Command]:
    """Return commands for a table, those for its own kind of rows first."""
    return [
        *rejected_commands(snapshot, shown),
        *commands(snapshot.table, shown),
        *file_commands(shown, has_files, columns),
    ]


def rejected_commands(snapshot: TableState, shown: str) -> list[Command]:
    """Return commands for the records of a dead-letter table; none for another table."""
    rejected = snapshot.table.stream.endswith(REJECTED)
    if not rejected or not refused_lines.are_in(snapshot.tap_schema):
        return []
    return [
        Command("List these records by reason", _shell("rejected", shown)),
        Command("Make rows of those that pass today", f"{_shell('rejected', shown)} --replay"),
    ]


def file_commands(shown: str, has_files: bool, sampled: Iterable[Column] = ()) -> list[Command]:
    """Return commands for the files that the rows of a state name.

    Args:
        shown: The table, or a version of it, as a person writes it.
        has_files: Whether they may name any.
        sampled: Columns with samples: the first file of one can be taken out.
    """
    if not has_files:
        return []
    folder = shlex.quote(f"files-of-{shown}".replace("/", "-"))
    found = [
        Command("List the files that its rows reference", _shell("files ls", shown)),
        Command("Export them into a folder", _shell("files export", shown) + f" {folder}"),
    ]
    one = next((sample.file for column in sampled for sample in column.samples if sample.file), "")
    if digest := file_paths.digest_in(one[one.rfind(file_paths.FOLDER) :])[:16]:
        text = _shell("files get", shown) + f" {digest} --out {digest}"
        found.append(Command("Extract one of them, by its SHA-256", text))
    return found


def _select(table: str, more: str = "") -> str:
    return f"select * from {table}{more}"  # noqa: S608  # shown, never run


def _altered(snapshot: TableState, number: int) -> str:
    """Describe what an alter added."""
    return "; ".join(differences(snapshot.overlay_at(number - 1), snapshot.overlay_at(number)))


def _shell(command: str, argument: str) -> str:
    return f"singerlake {command} {shlex.quote(argument)}"


def signature_commands(shown: str, version: Version) -> list[Command]:
    """Return the command that checks the signatures of a version, if it has any.

    Args:
        shown: The version, as a person writes it.
    """
    if not version.signatures:
        return []
    check = f"{_shell('verify', shown)} --signed-by allowed_signers"
    return [Command("Check its signatures against the signers that you trust", check)]


def version_commands(
    name: TableName, shown: str, sql: str, version: Version, has_files: bool
) -> list[Command]:
    """Return commands for a version."""
    number = version.number
    return [
        Command("Query it", _shell("query", _select(f"{sql}.{number}", " limit 10"))),
        Command(
            "Export it as Parquet",
            _shell("query", _select(f"{sql}.{number}"))
            + f" --format parquet --out {shlex.quote(f'{name.stream}-{number}.parquet')}",
        ),
        Command("Prove that it is unchanged", _shell("verify", shown)),
        *signature_commands(f"{shown}.{number}", version),
        Command("Revert the table to it", _shell("revert", shown) + f" --to {number}"),
        Command(
            "In a notebook",
            "from singerlake.spark import read_table\n\n"
            f"frame = read_table({shown!r}, version={number})",
        ),
        *file_commands(f"{shown}.{number}", has_files),
    ]
