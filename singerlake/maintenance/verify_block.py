"""Verifying one block: its checksums, its schema and its lines against what the log says."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.maintenance.problems import Problem
from singerlake.maintenance.verify_files import check_named
from singerlake.records.blocks import bounded_keys, type_prover
from singerlake.storage.base import Store


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
    except DamagedError as error:
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
        except DamagedError as error:
            yield "lines that say where they came from", str(error)
    activations = rewritten.activation_positions(positions, block.number)
    if not _agree(activations, block):
        at = [(least, version) for least, _, version in activations]
        yield f"the activations {block.activations}", f"{at}"


def _check_bounds(data: bytes, text: bytes) -> Iterator[tuple[str, str]]:
    """Hold what the header says of keys against the lines; who trusts it passes lines over."""
    try:
        format_block.origin(data, "it")
    except DamagedError:
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
        yield "values of its schema's types, as its header says", "others"


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
