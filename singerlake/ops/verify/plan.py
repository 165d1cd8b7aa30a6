"""Verifying: what of a table is not as its log says. Plain data, without Spark.

Each check gives back a list of problems and goes on after the first, for who repairs a table
wants to know all of it. What Spark must find out (all blocks, the versions' content) is in
``singerlake.ops.erase.verify``; a single block is checked in ``verify_block.py``,
indexes in ``verify_index.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from singerlake.errors import DataError, NewerFormatError, NotFoundError, SingerlakeError
from singerlake.format import metadata, names
from singerlake.format.erased_keys import BLOCKED
from singerlake.format.log import FREEZES_ITSELF, Entry, FrozenVersion, Operation, joined
from singerlake.format.metadata import Manifest
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.log import blocked, catalogue, files, log
from singerlake.log.checkpoint import differing, from_manifest
from singerlake.log.folding import fold
from singerlake.log.inventory import LAKE_FILE_HINT, LostTable
from singerlake.log.rewriting import Erasures
from singerlake.log.table_state import TableState
from singerlake.log.unfolding import entries_of
from singerlake.ops.verify.data_files import ends_before
from singerlake.ops.verify.problems import BACKUP, Problem
from singerlake.ops.verify.signatures import check_notes
from singerlake.storage.base import KeyMissingError, Listed, Store

_SHOWN = 160


@dataclass(frozen=True)
class CheckedLog:
    """A log, folded as far as it goes.

    Attributes:
        snapshot: The table by its log; an entry that is lost is taken from the manifest.
        problems: What is wrong with log and manifest.
        ends: Where files end whose last blocks are in others by now.
    """

    snapshot: TableState
    problems: list[Problem]
    notes: list[str]
    ends: Mapping[str, int] = field(default_factory=dict)


def check_log(store: Store, table: TableName) -> CheckedLog:
    """Read all of a log and hold the manifest against it.

    The manifest is read first: what it holds was committed before it was written.

    Raises:
        NotFoundError: Nothing was ever committed of the table.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    manifest = _read_manifest(store, table, problems, notes)
    entries = _read_entries(store, table, manifest, problems)
    if not entries and not problems:
        notes.clear()
        problems += _lost_log(store, table)
    snapshot = _fold(table, entries, problems)
    problems += _check_entries(snapshot, entries[: snapshot.number])
    problems += check_notes(snapshot, entries[: snapshot.number])
    for found in check_erasures(store, snapshot, entries[: snapshot.number]):
        if isinstance(found, str):
            notes.append(found)
        else:
            problems.append(Problem("log", *found, hint=BACKUP))
    if manifest is not None and snapshot.number >= manifest.number:
        ours, theirs = _comparable(snapshot, entries[: snapshot.number], manifest)
        problems += _check_manifest(ours, theirs)
    return CheckedLog(snapshot, problems, notes, ends_before(snapshot, entries))


def _lost_log(store: Store, table: TableName) -> list[Problem]:
    """Describe a table that has neither log nor manifest.

    Raises:
        NotFoundError: Nothing was ever committed of it.
    """
    present = files.list_files(store, table)
    if catalogue.is_uncommitted(store, table, present):
        raise NotFoundError(f"the lake has no table {table}: nothing was committed of it yet")
    if present.free or present.locked:
        hint = f"rebuild it with: singerlake rebuild {table}"
        return [Problem("log", table.log, "a log", "neither log nor manifest", hint)]
    return [gone(LostTable(table.tap, table, names.catalogue(table.tap)))]


def _comparable(
    head: TableState, entries: list[Entry], manifest: TableState
) -> tuple[TableState, TableState]:
    """The log and the manifest, both at a transaction at which they must say the same."""
    if any(entry.rewritten > manifest.number for entry in entries[: manifest.number]):
        # The manifest is older than an erasure, and the entries before that are not any more.
        with suppress(SingerlakeError):  # what is wrong, the comparison below shows
            return head, fold(manifest, entries[manifest.number :])
    return fold(TableState(head.table), entries[: manifest.number]), manifest


def gone(lost: LostTable) -> Problem:
    """Describe a tap or a table that is listed and of which nothing is there."""
    what = "tap" if lost.table is None else "table"
    return Problem(what, lost.folder, f"what {lost.listed_in} lists", "nothing", lost.hint)


def damaged_lake_file(text: str) -> Problem:
    """Describe a lake's own file that cannot be read."""
    return Problem("lake", names.LAKE, "the lake's own file", text, LAKE_FILE_HINT)


def dropped_words(snapshot: TableState) -> str:
    """Describe a table that was dropped."""
    at = f"it is dropped (transaction {snapshot.dropped_at})"
    if snapshot.restorable is None:
        return f"{at}, and a vacuum has deleted its data, or begun to: only its log was checked"
    return f"{at}: the check covered what this restores: singerlake undrop {snapshot.table}"


def unnamed_files(checked: CheckedLog, listing: Iterable[Listed]) -> Iterator[str]:
    """Describe data files that the log does not mention, if nothing else is wrong.

    Args:
        listing: The table's folder, listed after the log was read.
    """
    snapshot = checked.snapshot
    if checked.problems or not snapshot.number:
        return
    unnamed = log.unnamed_files(snapshot.table, listing, snapshot)
    if unnamed:
        yield (
            f"no log entry lists {len(unnamed)} of its data files (the first is {unnamed[0].key}): "
            "a writer is about to commit them, or died before it did, or a copy without --sync "
            "kept them, or their log entries are lost; a vacuum deletes those past its retention"
        )


def _read_manifest(
    store: Store, table: TableName, problems: list[Problem], notes: list[str]
) -> TableState | None:
    try:
        data = store.get(table.manifest).data
        return from_manifest(table, metadata.decode(data, Manifest, table.manifest))
    except KeyMissingError:
        notes.append(
            f"the manifest is missing, and can be derived: singerlake rebuild {table} writes it "
            "again"
        )
    except SingerlakeError as error:
        hint = "" if isinstance(error, NewerFormatError) else _derived(table)
        wanted = "a manifest that can be read"
        problems.append(Problem("manifest", table.manifest, wanted, str(error), hint))
    return None


def _derived(table: TableName) -> str:
    return f"it can be derived: delete it, then run: singerlake rebuild {table}"


def _read_entries(
    store: Store, table: TableName, manifest: TableState | None, problems: list[Problem]
) -> list[Entry]:
    """The entries from 1 on, without a gap; those behind a gap are only looked at."""
    numbers = {names.transaction_number(item.key) or 0 for item in store.list(table.log)} - {0}
    held = manifest.number if manifest is not None else 0
    by_number: dict[int, Entry] = {}
    damaged: set[int] = set()
    for number, entry in log.read_entries(store, table, sorted(numbers)):
        if isinstance(entry, Entry):
            by_number[number] = entry
        elif isinstance(entry, SingerlakeError):
            damaged.add(number)
            hint = BACKUP
            if number <= held and not isinstance(entry, NewerFormatError):
                hint = f"move it away, then run: singerlake rebuild {table}"
            key = table.transaction(number)
            problems.append(Problem("log", key, f"transaction {number}", str(entry), hint))
    problems += _lost_entries(table, {*by_number} | damaged, held, whole=manifest is None)
    if manifest is not None:
        for entry in entries_of(manifest, [e for n, e in sorted(by_number.items()) if n <= held]):
            by_number.setdefault(entry.number, entry)
    entries: list[Entry] = []
    while (entry := by_number.get(len(entries) + 1)) is not None:
        entries.append(entry)
    return entries


def _lost_entries(
    table: TableName, present: set[int], held: int, *, whole: bool
) -> Iterator[Problem]:
    """The gaps in a log, up to the last entry that is there or that the manifest holds."""
    # By what is there: a stray file of a huge number must not be counted up to.
    lost: list[tuple[int, int]] = []
    before = 0
    for number in sorted(present | {held} - {0}):
        missing = number not in present
        if missing or number > before + 1:
            lost.append((before + 1, number if missing else number - 1))
        before = number
    for start, end in joined(lost):
        begun = not (whole and start == 1)
        cure = BACKUP if begun and end > held else f"restore it with: singerlake rebuild {table}"
        hint = cure if begun else f"{log.IF_COPIED}{cure}"
        wanted = f"transaction {start}" if start == end else f"transactions {start} to {end}"
        yield Problem("log", table.transaction(start), wanted, "nothing", hint)


def _fold(table: TableName, entries: list[Entry], problems: list[Problem]) -> TableState:
    """The log folded, up to the first entry that does not continue it."""
    taken = 0

    def counted() -> Iterator[Entry]:
        nonlocal taken
        for entry in entries:
            yield entry
            taken += 1

    try:
        return fold(TableState(table), counted())
    except SingerlakeError as error:
        key = table.transaction(entries[taken].number)
        wanted = "an entry that continues the log"
        problems.append(Problem("log", key, wanted, str(error), BACKUP))
        return fold(TableState(table), entries[:taken])


def _check_entries(snapshot: TableState, entries: list[Entry]) -> Iterator[Problem]:
    table = snapshot.table
    commits: dict[str, int] = {}
    for entry in entries:
        key = table.transaction(entry.number)
        if (first := commits.setdefault(entry.commit, entry.number)) != entry.number:
            actual = f"that of transaction {first}, {entry.commit!r}"
            yield Problem("log", key, "a commit id of its own", actual)
        used = {b.schema_hash for b in entry.blocks} | {entry.schema_hash} - {""}
        for name in sorted(used - set(snapshot.schemas)):
            yield Problem("log", key, f"the schema {name!r} in the log", "no such schema")
        said = entry.deletion
        if said is not None and not 1 <= said.version <= snapshot.last_version:
            yield Problem("log", key, "a version to delete that there was", str(said.version))
        move = entry.pointer
        if move is not None and not 0 <= move.version <= snapshot.last_version:
            yield Problem("log", key, "a version to point to that there was", str(move.version))
        signature = entry.signature
        if signature is not None and not 1 <= signature.version <= snapshot.last_version:
            yield Problem("log", key, "a version to sign that there was", str(signature.version))
        if entry.version is not None:
            yield from _check_version(snapshot, key, entry, entry.version)
    for name, schema in snapshot.schemas.items():
        if (actual := schema_hash(schema.schema, schema.key_properties)) != name:
            yield Problem("log", table.log, f"a schema whose hash is {name!r}", f"{actual!r}")


def _check_version(
    snapshot: TableState, key: str, entry: Entry, version: FrozenVersion
) -> Iterator[Problem]:
    """Hold a version against the transaction that it means."""
    yield from _check_lanes(key, version, entry.lanes)
    own = entry.operation in FREEZES_ITSELF  # what it leaves, and nothing else
    if own and version.transaction != entry.number:
        wanted = f"version {version.number} of this transaction"
        yield Problem("log", key, wanted, f"transaction {version.transaction}")
    elif not own and not 1 <= version.transaction < entry.number:
        wanted = f"version {version.number} of an earlier transaction"
        yield Problem("log", key, wanted, f"transaction {version.transaction}")
    elif (known := snapshot.summary(version.transaction).schema_hash) != version.schema_hash:
        wanted = f"version {version.number} under the schema {known!r}"
        yield Problem("log", key, wanted, f"{version.schema_hash!r}")


def _check_lanes(key: str, version: FrozenVersion, lanes: dict[str, str]) -> Iterator[Problem]:
    """Hold what a version's fingerprints are made of against them."""
    if not lanes:
        return  # an earlier release froze it, or a rebuild wrote the entry
    from singerlake.format.set_hash import SetHash  # numpy takes long to import

    for name in ("fingerprint", "record_fingerprint"):
        try:
            actual = SetHash.of_encoded(lanes.get(name, "")).text
        except ValueError as error:
            actual = str(error)
        if actual != (wanted := getattr(version, name)):
            yield Problem("log", f"{key}, lanes", f"what has the {name} {wanted}", actual)


def _check_manifest(ours: TableState, manifest: TableState) -> Iterator[Problem]:
    table = ours.table
    for what, mine, theirs in differing(ours, manifest):
        both = zip(mine, theirs, strict=False)
        at = next((index for index, (a, b) in enumerate(both) if a != b), None)
        if at is None:
            wanted, actual = f"{len(mine)} {what} as in the log", str(len(theirs))
        else:
            wanted, actual = _difference(mine[at], theirs[at])
        yield Problem("manifest", f"{table.manifest}, {what}", wanted, actual, _derived(table))


def _difference(mine: object, theirs: object) -> tuple[str, str]:
    """Two things as JSON: their numbers, and the members in which they differ."""
    pair = [msgspec.to_builtins(mine), msgspec.to_builtins(theirs)]
    if all(isinstance(one, dict) for one in pair):
        members = {*pair[0], *pair[1]}
        same = {m for m in members - {"number"} if pair[0].get(m) == pair[1].get(m)}
        pair = [{k: v for k, v in one.items() if k not in same} for one in pair]
    texts = [msgspec.json.encode(one).decode() for one in pair]
    mine_text, theirs_text = (t if len(t) <= _SHOWN else t[:_SHOWN] + "…" for t in texts)
    return mine_text, theirs_text


# Verifying erasures: that the log announced them, and that it tells of them no more.


def check_erasures(
    store: Store, snapshot: TableState, entries: Sequence[Entry]
) -> Iterator[tuple[str, str, str] | str]:
    """Hold entries that an erasure had rewritten against it, and look for those it has not yet.

    Yields:
        Of each problem where it is, what is expected and what is found; or a note.
    """
    table = snapshot.table
    try:
        blocked.read(store, snapshot)
    except DataError as error:
        yield f"{table.folder}{BLOCKED}", "the hashes of the keys that are blocked", str(error)
    for entry in entries:
        if entry.rewritten and not _announces(snapshot, entry.rewritten):
            wanted = f"an erase-start as transaction {entry.rewritten}, for which it was rewritten"
            yield table.transaction(entry.number), wanted, "none"
    try:
        erasures = Erasures.of(snapshot, (e for e in entries if e.operation == Operation.ERASE))
    except DataError as error:
        yield table.log, "an erase-start before each erase", str(error)
        return
    stale = [entry.number for entry in entries if erasures.without_traces(entry) is not entry]
    if stale:
        yield (
            f"{len(stale)} of its log entries (the first is transaction {stale[0]}) still have "
            "fingerprints or checksums from before rows were erased, with which a guess of a row "
            f"could be confirmed: remove them with: singerlake vacuum {table}"
        )


def _announces(snapshot: TableState, number: int) -> bool:
    there = number <= snapshot.number
    return there and snapshot.summary(number).operation == Operation.ERASE_START
