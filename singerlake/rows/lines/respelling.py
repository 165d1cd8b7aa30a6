"""Members of an older record, spelled as the schema has them that it is written under now.

A changed row was perhaps written under another schema. What both hold in the same way keeps its
bytes. A column that has another type gets the canonical text of the value that it shows; a value
that the column cannot hold keeps its bytes and stays what it is. One that comes from another member
gets its bytes under that name: the tap sends two by now of which a person made one. Where the
record's own schema does not declare a column, the record now says what the column showed, its
default or null, if it would else show something: another default, a member of which nobody knew, or
the value of a column that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.format.types import Type, exact
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, alias
from singerlake.rows.blocks import decoding
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.blocks.defaults import ColumnDefault
from singerlake.rows.lines.record_texts import RecordTexts


class _Envelope(msgspec.Struct):
    record: dict[str, msgspec.Raw]


_ENVELOPE = msgspec.json.Decoder(_Envelope)
Members = dict[str, bytes | None]
"""As ``members.patched`` takes them."""


@dataclass
class _Column:
    """A column that the block's records have in another way, with what its rows show in it.

    Attributes:
        own: What they call it.
        member: What they call it from now on.
        same_type: Whether its values are spelled as before.
        required: Whether a record must have it.
        declared: By row, whether the record says what the column shows.
        fits: By row, whether the column shows a value.
    """

    own: str
    member: str
    same_type: bool
    required: bool
    declared: NDArray[np.bool_]
    fits: list[bool]


@dataclass
class Respelling:
    """The members to add to rows of one block, because their records lack them.

    Attributes:
        columns: The columns that differ.
        texts: By row, the members that they are under the other schema, spelled anew.
        leftover: Members that the other schema has no more under their names.
    """

    columns: list[_Column]
    texts: list[Members]
    leftover: list[str] = field(default_factory=list)

    @classmethod
    def of_block(cls, text: bytes, spec: BlockSpec, texts: RecordTexts) -> Respelling | None:
        """Read a block's rows; None where nothing differs.

        Args:
            text: The block, inflated.
            spec: How it is read: ``target`` are all columns of the schema now in effect.
            texts: Writes their values under that schema, by its members.
        """
        own, target = dict(spec.source), spec.target
        indexes = [
            index for index, (name, _) in enumerate(target) if _differs(spec, own, index, texts)
        ]
        if not indexes:
            return None
        wanted = tuple(target[index] for index in indexes)
        read = replace(spec, target=wanted, keys=frozenset(), digests=False)
        batch = decoding.read(text, read)
        blocks = batch.column(BLOCK).to_numpy()
        misfits = [{index for index, _ in one or ()} for one in batch.column(MISFITS).to_pylist()]
        columns = []
        for place, index in enumerate(indexes):
            name = target[index][0]
            there = batch.column(place).is_valid().to_pylist()
            columns.append(
                _Column(
                    own=spec.members.get(name, name),
                    member=texts.member(name),
                    same_type=own.get(name) == target[index][1],
                    required=texts.spellings[index].required,
                    declared=_declared(spec.defaults.get(name), blocks, in_schema=name in own),
                    fits=[a and place not in b for a, b in zip(there, misfits, strict=True)],
                )
            )
        cells = pa.RecordBatch.from_arrays(
            batch.columns[: len(indexes)], names=[alias(index) for index in indexes]
        )
        spelled: list[Members] = texts.changes(cells, indexes).members
        names = {texts.member(name) for name, _ in target}
        leftover = [one.own for one in columns if one.own not in names]
        return cls(columns, spelled, leftover)

    def members(self, row: int, line: bytes) -> Members:
        """Return what a row's record must say otherwise.

        Args:
            row: The row's index in its block.
        """
        record = _ENVELOPE.decode(line).record
        new: Members = {}
        for column in self.columns:
            raw = record.get(column.own)
            if not column.declared[row]:
                shown = self.texts[row].get(column.member)
                is_null = shown in (None, b"null")
                if column.member in record or column.required or not is_null:
                    new[column.member] = shown
            elif raw is None:  # nothing was said of it, and nothing is now
                if column.member != column.own:
                    new[column.member] = None
            elif column.fits[row] and not column.same_type:
                new[column.member] = self.texts[row].get(column.member)
            elif column.member != column.own:
                new[column.member] = bytes(raw)
        for member in self.leftover:
            if member in record:
                new.setdefault(member, None)
        return new


def older(block: Block, defaults: Mapping[str, ColumnDefault]) -> bool:
    """Tell whether rows of a block may be from before a column that a person added."""
    first = block.lowest_version
    return any(first < one.first_block for one in defaults.values())


def _differs(spec: BlockSpec, own: Mapping[str, Type], index: int, texts: RecordTexts) -> bool:
    name, type_ = spec.target[index]
    if name not in own:
        return True
    if exact(own[name], is_key=False) != exact(type_, is_key=False) or spec.members.get(
        name, name
    ) != texts.member(name):
        return True
    default = spec.defaults.get(name)
    return default is not None and older(spec.block, {name: default})


def _declared(
    default: ColumnDefault | None, blocks: NDArray[np.int64], *, in_schema: bool
) -> NDArray[np.bool_]:
    """Return which rows' records have a value of the column."""
    if default is None or not in_schema:
        return np.full(len(blocks), in_schema)
    declared: NDArray[np.bool_] = blocks >= default.first_block
    return declared
