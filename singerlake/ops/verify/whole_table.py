"""All of a table held against its log, whoever reads it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import msgspec
from blake3 import blake3

from singerlake.engine.base import Engine
from singerlake.engine.work import TooLargeError, Work
from singerlake.errors import DamagedError, DataError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import metadata, names, rewritten
from singerlake.format.log import Block, FrozenVersion
from singerlake.format.metadata import INDEX_FORMAT, IndexMarker
from singerlake.format.names import IndexFolder, TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Table
from singerlake.log import catalogue
from singerlake.log.folding import restored
from singerlake.log.table_state import TableState
from singerlake.ops.verify import plan as checks
from singerlake.ops.verify.checking import problems as checked
from singerlake.ops.verify.data_files import check_ends, check_files
from singerlake.ops.verify.files import NamedFile, check_file, check_lists, check_named, tasks_of
from singerlake.ops.verify.problems import Problem, Report
from singerlake.ops.verify.signatures import Signers, check_signatures
from singerlake.rows.blocks import block_tasks, bounded_keys, type_prover
from singerlake.rows.blocks.misfits import ways_out
from singerlake.rows.state.fingerprint import Content, Proof, claims
from singerlake.rows.state.parquet_parts import Part
from singerlake.snapshot import index
from singerlake.snapshot.content import index_content, state_content, state_misfits
from singerlake.snapshot.from_blocks import needed_blocks
from singerlake.storage.base import KeyMissingError, Store

ENTRY_BYTES = 1_000
"""What an entry of the log counts as."""
_State: TypeAlias = tuple[int, int]


def _state(at: TableState) -> _State:
    """Identify a state and the way in which it is read."""
    return at.number, at.rules


def verify(
    engine: Engine[Any],
    table: Table,
    version: str | None = None,
    limit: Work | None = None,
    signers: Signers | None = None,
) -> Report:
    """Hold all of a table against its log.

    Args:
        engine: Reads what there may be much of.
        version: A frozen version's number or label; by default all are computed again.
        limit: The most that there may be to do.
        signers: Those of whom one must have signed each version; by default none need have.

    Returns:
        What was looked at, and what is not as it should be.

    Raises:
        NotFoundError: There is no such version, or nothing was ever committed of the table.
        StoreError: The store refused a listing, or the log.
        TooLargeError: There is more to do than ``limit``; nothing large was read.
    """
    with ExitStack() as leases:
        with suppress(SingerlakeError):  # a log that cannot be read is what it must report
            leases.enter_context(table.lease())
        return verify_leased(engine, table, version, limit, signers)


def check_size(limit: Work | None, head: TableState, states: Iterable[TableState]) -> None:
    """Make sure that there is not too much to do, before anything large is read.

    Args:
        limit: The most that there may be; None for any amount.
        head: The table, with all blocks that are read.
        states: Those that are read once more.

    Raises:
        TooLargeError: There is more.
    """
    if limit is None:
        return
    named = any(block.files for block in head.blocks)  # of any size, and hashed whole
    work = Work(sys.maxsize if named else head.number * ENTRY_BYTES)
    work += Work.of(head.blocks, len(head.columns) if head.blocks else 0)
    seen: set[int] = set()
    for state in states:
        if not work.fits(limit):
            break
        if state.number not in seen:
            seen.add(state.number)
            work += Work.of(needed_blocks(state), 0)
    if not work.fits(limit):
        raise TooLargeError


def verify_leased(
    engine: Engine[Any],
    table: Table,
    version: str | None,
    limit: Work | None,
    signers: Signers | None = None,
) -> Report:
    """Do as :func:`verify`, for somebody who holds a lease where there can be one."""
    log = checks.check_log(table.store, table.name)
    head = log.snapshot
    dropped = bool(head.dropped_at)
    if dropped:
        log.notes.append(checks.dropped_words(head))
        head = restored(head)
    wanted = head.frozen if version is None else [head.version(version)]
    check_size(limit, head, (head.frozen_as(version).earliest_equal() for version in wanted))
    listing = list(table.store.list(table.name.folder))
    problems, readable = check_files(head, listing)
    report = Report(
        table.name,
        transactions=head.number,
        blocks=len(head.blocks),
        files=len({block.file for block in head.blocks}),
        bytes=sum(block.length for block in head.blocks),
        versions=len(wanted),
        dropped=dropped,
        notes=[*log.notes, *checks.unnamed_files(log, listing)],
    )
    with suppress(DamagedError):  # of a schema that the log lost, it tells as such
        report.listing = catalogue.entry_of(
            table.name, head.schema, laid_over=not head.overlay.only_texts
        )
    report.add(log.problems)
    report.add(problems)
    problems, notes = check_ends(table.store, head, log.ends, listing)
    report.add(problems)
    report.notes += notes
    tasks = block_tasks.split(readable, engine.parts, block_tasks.TASK_BYTES)
    report.add(*checked(engine, tasks, partial(check_block, table.store, table.name)))
    wrong, stored = check_lists(table.store, table.name, head.blocks, listing)
    report.stored = len(stored)
    report.add(wrong)
    one_file = partial(_check_stored_file, table.store, table.name)
    report.add(*checked(engine, tasks_of(stored), one_file))
    indexes, notes, parts = check_indexes(table.store, head)
    report.add((checker := _Versions(engine, table, head)).check(wanted))
    if signers is not None:
        check_signatures(head, wanted, signers, report)
    if version is None and head.number and not dropped:
        _add_misfits(engine, table, head, report)
    report.add(indexes)
    unread = [[Part(*part)] for part in parts if part[0] not in checker.read]
    report.add(*checked(engine, unread, partial(_check_part, table.store)))
    report.notes += notes
    if weak := [version.number for version in wanted if version.only_against_accident]:
        report.notes.append(_weak(table, weak))
    return report


def _weak(table: Table, versions: list[int]) -> str:
    listed = ", ".join(map(str, versions))
    return (
        f"{'version' if len(versions) == 1 else 'versions'} {listed}, of an earlier release, has "
        "only a fingerprint against accidents: anyone who can choose rows can construct others "
        f"with the same one. A new freeze of the same transaction (singerlake freeze {table.name} "
        "--transaction …) has one that also resists this"
    )


def _add_misfits(engine: Engine[Any], table: Table, head: TableState, report: Report) -> None:
    """Report the values in the head that no reader can have as what their columns are."""
    state = head.earliest_equal()
    if any(_state(head.frozen_as(v).earliest_equal()) == _state(state) for v in head.frozen):
        return  # a version was made of it, so all fits, and was read above
    try:
        report.misfits = state_misfits(engine, table, state)
    except SingerlakeError as error:
        if any(problem.what in ("log", "file", "block") for problem in report.problems):
            return  # which was reported, and is why
        where = f"transaction {state.number}"
        report.add([Problem("head", where, "a readable snapshot", str(error))])
        return
    report.add(
        [
            Problem(
                "value",
                f"transaction {state.number}",
                f"what column {one.column!r} can hold",
                str(one),
                ways_out(head.table, [one.column], keyed=bool(head.schema.key_properties)),
            )
            for one in report.misfits
        ]
    )


def _check_stored_file(store: Store, table: TableName, file: NamedFile) -> list[Problem]:
    return check_file(store, table, file[0])


def _check_part(store: Store, part: Part) -> list[Problem]:
    try:
        actual = blake3(store.get(part.key).data).hexdigest()
    except SingerlakeError as error:
        actual = str(error)
    if actual == part.hash:
        return []
    hint = cache_hint(part.key.rpartition("/")[0] + "/")
    return [Problem("index", part.key, f"the hash {part.hash}", actual, hint)]


@dataclass
class _Versions:
    """Computes versions again; those of the same state only once.

    Attributes:
        read: Keys of index files that were read, and so held against their hashes.
    """

    engine: Engine[Any]
    table: Table
    head: TableState
    read: set[str] = field(default_factory=set)
    _contents: dict[_State, Content | SingerlakeError] = field(default_factory=dict)
    _indexes: dict[_State, list[Problem]] = field(default_factory=dict)
    _proofs: dict[_State, dict[Proof, str]] = field(default_factory=dict)

    def check(self, versions: Sequence[FrozenVersion]) -> list[Problem]:
        problems = []
        states = [self.head.frozen_as(version).earliest_equal() for version in versions]
        for version, at in zip(versions, states, strict=True):
            self._proofs.setdefault(_state(at), {}).update(claims(version))
        for version, at in zip(versions, states, strict=True):
            content = self._content(at)
            where = f"version {version.number}, transaction {version.transaction}"
            if isinstance(content, SingerlakeError):
                wanted = "a readable snapshot"
                problems.append(Problem("version", where, wanted, str(content)))
                continue
            known = Content(version.rows, claims(version))
            problems += _differences("version", where, known, content, "")
            if _state(at) not in self._indexes:
                self._indexes[_state(at)] = self._check_index(at, content)
                problems += self._indexes[_state(at)]
        return problems

    def _content(self, at: TableState) -> Content | SingerlakeError:
        """From the blocks alone: an index may be what is wrong."""
        state = _state(at)
        if state not in self._contents:
            try:
                proofs = tuple(self._proofs[state])
                self._contents[state] = state_content(self.engine, self.table, at, proofs)
            except SingerlakeError as error:
                self._contents[state] = error
        return self._contents[state]

    def _check_index(self, at: TableState, known: Content) -> list[Problem]:
        """Queries read the index of a version if there is one, so it must hold the same."""
        built = index.load(self.table, at)
        if built is None:
            return []
        below = [] if built.below is None else built.below.parts
        self.read.update(part.key for part in [*built.parts, *below])
        folder = index.folder_of(self.table, at)
        hint = cache_hint(folder)
        if built.below is not None:
            hint += f", and {index.folder_of(self.table, built.below.snapshot)}, below it"
        try:
            actual = index_content(self.engine, built, tuple(known.proofs))
        except SingerlakeError as error:
            return [Problem("index", folder, "readable files", str(error), hint)]
        return _differences("index", folder, known, actual, hint)


def _differences(
    what: str, where: str, known: Content, actual: Content, hint: str
) -> list[Problem]:
    pairs = {"rows": (f"{known.rows}", f"{actual.rows}")}
    for proof, text in known.proofs.items():
        pairs[f"as {_TITLES[proof]}"] = (text, actual.proofs[proof])
    return [
        Problem(what, where, f"{expected} {name}", present, hint)
        for name, (expected, present) in pairs.items()
        if expected != present
    ]


_TITLES = {
    Proof.VALUES: "fingerprint",
    Proof.RECORDS: "fingerprint of the records",
    Proof.ACCIDENT: "fingerprint",
}


# Verifying one block: its checksums, its schema and its lines against what the log says.


class _Line(msgspec.Struct, tag_field="type"):
    pass


class _SchemaLine(_Line, tag="SCHEMA"):
    schema: dict[str, object]
    key_properties: list[str] | None = None


class _RecordLine(_Line, tag="RECORD"):
    record: msgspec.Raw
    row_version: int | None = None
    row_ordinal: int | None = None


class _ActivateLine(_Line, tag="ACTIVATE_VERSION"):
    version: int


_SCHEMA = msgspec.json.Decoder(_SchemaLine)
_LINES = msgspec.json.Decoder(_RecordLine | _ActivateLine)


def check_block(store: Store, table: TableName, block: Block) -> list[Problem]:
    """Read a block and hold it against the log and against its own checksums.

    Only what no row comes from may differ unseen: when it was made, which nothing else tells, and
    bits of the deflated text that have no meaning.
    """
    where = f"block {block.number}, {table.data(block.file)} at byte {block.offset}"

    def problem(expected: str, actual: str) -> Problem:
        return Problem("block", where, expected, actual)

    try:
        data = store.get_range(table.data(block.file), block.offset, block.length)
    except SingerlakeError as error:
        return [problem(f"{block.length} bytes", str(error))]
    if len(data) != block.length:
        return [problem(f"{block.length} bytes", f"{len(data)}")]
    try:
        header = format_block.header(data, "it")
        text = format_block.decode(data, block.bytes, "it")
    except DataError as error:
        return [problem(f"a whole block that inflates to {block.bytes} bytes", str(error))]
    problems = [
        problem(f"{expected} {what}", str(actual))
        for what, expected, actual in (
            ("bytes in its header", block.length, header.length),
            ("rows in its header", block.rows, header.rows),
            ("as the checksum in its trailer", block.crc, format_block.checksum(data)),
        )
        if expected not in (None, actual)
    ]
    if not format_block.is_fixed(data):
        problems.append(problem("no time and no system in gzip's header", "one of them"))
    problems += [problem(*difference) for difference in _check_lines(text, block)]
    problems += [problem(*difference) for difference in _check_bounds(data, text)]
    problems += [problem(*difference) for difference in _check_types(data, text, block)]
    try:
        differences = check_named(store, table, block.files, text)
        return problems + [problem(*difference) for difference in differences]
    except SingerlakeError as error:  # the list was reported; a line that is none, above
        return problems or [problem("a list of the files that its rows name", str(error))]


def _check_lines(text: bytes, block: Block) -> Iterator[tuple[str, str]]:
    schema_line, rest = format_block.lines(text)
    try:
        schema = _SCHEMA.decode(schema_line)
        actual = schema_hash(dict(schema.schema), list(schema.key_properties or []))
        if actual != block.schema_hash:
            yield f"a schema of the hash {block.schema_hash!r}", f"{actual!r}"
        lines = _LINES.decode_lines(rest)
    except (msgspec.DecodeError, SingerlakeError) as error:
        yield "a SCHEMA line, then RECORD and ACTIVATE_VERSION lines", str(error)
        return
    positions: list[tuple[int, int] | int] = []
    rows: list[tuple[int, int]] = []
    for line in lines:
        if isinstance(line, _ActivateLine):
            positions.append(line.version)
        else:
            position = rewritten.position(line, block.number, len(rows), rewritten=block.rewritten)
            rows.append(position)
            positions.append(rows[-1])
    if len(rows) != block.rows:
        yield f"{block.rows} RECORD lines", f"{len(rows)}"
    elif block.rewritten:
        try:
            rewritten.check_positions(rows, block)
        except DataError as error:
            yield "lines with their origin", str(error)
    activations = rewritten.activation_positions(positions, block.number)
    if not _agree(activations, block):
        at = [(least, version) for least, _, version in activations]
        yield f"the activations {block.activations}", f"{at}"


def _check_bounds(data: bytes, text: bytes) -> Iterator[tuple[str, str]]:
    """Hold what the header says of keys against the lines; who trusts it passes lines over."""
    try:
        format_block.origin(data, "it")
    except DataError:
        yield "whole fields in its header", "others"
        return
    said = format_block.bounds_in(data, format_block.checksum(data), len(text))
    if not said and format_block.has_bounds(data):
        yield "its keys in its header", "what is damaged, or of another block"
    found = bounded_keys.of_block(text) if said else {}
    if any(found.get(name) != both for name, both in said.items()):
        # Which keys they are is not said: what is printed is kept for longer than rows may be.
        yield "the smallest and the largest key in its header", "keys beyond them, or none of them"


def _check_types(data: bytes, text: bytes, block: Block) -> Iterator[tuple[str, str]]:
    """Hold what the header says of types against the lines; who trusts it looks no further."""
    if not format_block.says_proved(data):
        return
    crc, size = format_block.checksum(data), len(text)
    if not format_block.proved_in(data, block.schema_hash, crc, size):
        yield "its types in its header", "what is damaged, or of another block"
    elif not type_prover.block_proves(text):
        yield "values of its schema's types, as in its header", "others"


def _agree(activations: list[tuple[int, int | None, int]], block: Block) -> bool:
    return len(activations) == len(block.activations) and all(
        version == wanted and _between(rows, least, most, block)
        for (least, most, version), (rows, wanted) in zip(
            activations, block.activations, strict=True
        )
    )


def _between(rows: int, least: int, most: int | None, block: Block) -> bool:
    """A block as it was written has all its rows, so that its activations have one place."""
    if not block.rewritten:
        return rows == least
    return least <= rows and (most is None or rows <= most)


# Verifying a table's indexes: their markers, held against the files there are.


def cache_hint(folder: str) -> str:
    """Return what may be done about an index that is not as it should be."""
    return f"a materialized snapshot is only a cache: delete the folder {folder}"


def check_indexes(
    store: Store, snapshot: TableState
) -> tuple[list[Problem], list[str], list[tuple[str, str]]]:
    """Hold the markers of a table's indexes against the files there are.

    Returns:
        Problems, notes on indexes that nobody reads, and the keys and hashes of the files of
        the others, whose bytes are still to be checked.
    """
    table = snapshot.table
    problems: list[Problem] = []
    notes: list[str] = []
    parts: list[tuple[str, str]] = []
    for number, rules in sorted(filter(None, map(IndexFolder.parse, store.folders(table.indexes)))):
        folder = table.index(number, rules)
        key = folder + names.INDEX_MARKER
        try:
            marker = metadata.decode(store.get(key).data, IndexMarker, key)
        except KeyMissingError:
            continue  # unfinished, or being made
        except SingerlakeError as error:
            wanted = "a marker that can be read"
            problems.append(Problem("index", key, wanted, str(error), cache_hint(folder)))
            continue
        if marker.format < INDEX_FORMAT:
            notes.append(
                f"an earlier release created the materialized snapshot {folder}, and "
                "this one uses another"
            )
            continue
        known = snapshot.transactions[number - 1 : number]
        if [(t.number, t.commit, t.schema_hash) for t in known] != [
            (marker.transaction, marker.commit, marker.schema_hash)
        ]:
            notes.append(
                f"the materialized snapshot {folder} belongs to another log, and is not used"
            )
            continue
        sizes = {item.key: item.size for item in store.list(folder)}
        for file in marker.files:
            size = sizes.get(folder + file.path)
            if size != file.bytes:
                actual = "nothing" if size is None else f"{size}"
                wanted, hint = f"{file.bytes} bytes", cache_hint(folder)
                problems.append(Problem("index", folder + file.path, wanted, actual, hint))
            else:
                parts.append((folder + file.path, file.hash))
        rows = sum(file.rows for file in marker.files)
        if marker.rows not in (rows, None):
            wanted = f"{marker.rows} rows in its files"
            problems.append(Problem("index", key, wanted, f"{rows}", cache_hint(folder)))
    return problems, notes, parts
