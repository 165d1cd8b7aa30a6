"""Proves, before an erasure is committed, that each state is the old one less exactly its rows.

Fingerprints are hashes of sums. So the sums over what a version is without the rows, and over those
of its rows that go, make together the fingerprint that the version was frozen with: or the
erasure would change something else, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.errors import DamagedError
from singerlake.format.log import Block, FrozenVersion
from singerlake.format.set_hash import SetHash
from singerlake.format.version_notes import ErasedVersion
from singerlake.lake import Table
from singerlake.log import versions
from singerlake.log.table_state import TableState
from singerlake.ops.erase.lines import ErasedLines
from singerlake.rows.batches.row_columns import BLOCK, DELETED, DIGEST, ORDINAL, VERSION
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.blocks.misfits import NULL
from singerlake.rows.state.fingerprint import (
    SUMMED,
    Content,
    Proof,
    Summer,
    claims,
    digits,
)
from singerlake.snapshot import from_blocks
from singerlake.snapshot.content import state_content, total

BITS = 128
_LINE = [BLOCK, ORDINAL, VERSION, DIGEST, DELETED]
"""Where a line is, its record's digest and whether it deletes."""


@dataclass(frozen=True)
class ErasureProof:
    """Counts the states that lose rows, as they were and as they will be.

    Attributes:
        engine: Reads them.
        table: The table.
        before: Its head.
        after: What it will be.
        gone: The lines that go.
    """

    engine: Engine[Any]
    table: Table
    before: TableState
    after: TableState
    gone: ErasedLines

    @property
    def touched(self) -> list[Block]:
        """The blocks that lose lines, as they are."""
        return [block for block in self.before.blocks if block.number in self.gone.packed]

    def versions(self) -> list[ErasedVersion]:
        """Return what versions are without the rows, where they had any.

        Raises:
            DamagedError: One would not be what it is less exactly these rows; or the blocks
                would not.
        """
        known: dict[tuple[object, ...], tuple[Content, Content]] = {}
        found: list[ErasedVersion] = []
        for version, at in self._states():
            wanted = tuple(claims(version))
            same = (at.number, at.schema_hash, max(at.overlays, default=0), at.rules, wanted)
            if same not in known:
                known[same] = self._parts(at, wanted)
            left, went = known[same]
            self._check(f"version {version.number}", version.rows, claims(version), left, went)
            if went.rows:
                found.append(_erased(version, left))
        self._check_blocks()
        return sorted(found, key=lambda one: one.version)

    def going(self) -> list[ErasedVersion]:
        """Return how many rows versions would have, without counting what would be left."""
        found: list[ErasedVersion] = []
        for version, at in self._states():
            went = self._going(at, tuple(claims(version)))
            if went.rows:
                left = version.rows - went.rows
                told = ErasedVersion(
                    version=version.number, rows_before=version.rows, rows=left, fingerprint=""
                )
                found.append(told)
        return sorted(found, key=lambda one: one.version)

    def _states(self) -> Iterator[tuple[FrozenVersion, TableState]]:
        """The versions that may lose rows, and the states that they are of."""
        first = min(self.gone.packed)
        for version in versions.protecting(self.before, self.before.floor):
            at = self.before.frozen_as(version).earliest_equal()
            if at.last_block >= first:
                yield version, at

    def _parts(self, at: TableState, wanted: tuple[Proof, ...]) -> tuple[Content, Content]:
        """What a state will be, and what of it goes."""
        now = self.after.at(at.number).by_rules(at.rules)
        left = state_content(self.engine, self.table, now, wanted, misfits=NULL)
        return left, self._going(at, wanted)

    def _going(self, at: TableState, wanted: tuple[Proof, ...]) -> Content:
        """The rows of a state that go."""
        blocks: Sequence[Block] | None = None
        if at.key_reading == self.before.key_reading:
            # All lines of these keys are in the blocks that lose them: no other need be read.
            blocks = [block for block in self.touched if block.number <= at.last_block]
        plan = from_blocks.planned(self.engine, self.table, at, digests=True, blocks=blocks)
        step = Pipeline((_Going(self.gone), Summer(plan.shape.columns, wanted)))
        sums = from_blocks.through(self.engine, plan, step, SUMMED)
        return total(self.engine, sums, wanted)

    def _check_blocks(self) -> None:
        """Make sure that the new blocks have the lines of the old, in their places, less these.

        The rows' keys are those of the present state, so no more is needed for it: it has lost
        all lines of these keys, and of all others it has what it had.
        """
        engine, new = self.engine, {block.number: block for block in self.after.blocks}
        tasks = block_tasks.split(self.touched, engine.parts, block_tasks.TASK_BYTES)
        reader = BlockReader.of(self.table.store, self.after, tasks, (), (), digests=True)
        reader.tasks = []
        gone = self.gone
        work = [
            msgspec.msgpack.encode([(old, new[old.number], gone.of_block(old)) for old in task])
            for task in tasks
        ]
        if engine.collect(engine.map(engine.source(work), _Differing(reader), _DIFFERING)):
            raise DamagedError(
                f"{self.table.name}: its blocks would not lose exactly these rows; a block is "
                "damaged (singerlake verify shows which); nothing was changed"
            )

    def _check(
        self, what: str, rows: int, told: Mapping[Proof, str], left: Content, went: Content
    ) -> None:
        whole = {proof: _together(proof, left, went) for proof in told}
        if (left.rows + went.rows, whole) != (rows, dict(told)):
            raise DamagedError(
                f"{self.table.name}: {what} would not lose exactly these rows ({rows:,} rows; "
                f"{left.rows:,} would be left, and {went.rows:,} go). Either a block or the "
                "version is damaged (singerlake verify shows which), or the table had another key "
                "then, under which older rows would become visible again; nothing was changed"
            )


@dataclass
class _Going:
    """Keeps the rows that go.

    Attributes:
        gone: The lines that do.
    """

    gone: ErasedLines

    def __call__(self, batches: Batches) -> Batches:
        """Take rows with their places."""
        for batch in batches:
            yield batch.filter(pa.array(self.gone.mask(positions.codes_in(batch))))


_PAIRS = msgspec.msgpack.Decoder(list[tuple[Block, Block, bytes]])
_DIFFERING = "block long"


@dataclass
class _Differing:
    """Gives the numbers of blocks that are not what they were less exactly the lines that go.

    Attributes:
        reader: Reads the records' digests.
    """

    reader: BlockReader

    def __call__(self, tasks: Batches) -> Batches:
        """Take blocks as they were, and as they are written."""
        for _, work in block_tasks.given(tasks):
            for old, new, gone in _PAIRS.decode(work or b""):
                was, now = (self._lines(block) for block in (old, new))
                going = ErasedLines({old.number: gone}, 0).mask(positions.codes_in(was))
                if not was.filter(pa.array(~going)).equals(now):
                    yield pa.RecordBatch.from_pydict({"block": [old.number]})

    def _lines(self, block: Block) -> pa.RecordBatch:
        (rows,) = self.reader.rows([block])
        return rows.select(_LINE)


def _together(proof: Proof, one: Content, other: Content) -> str:
    """The fingerprint of two sets of rows put together."""
    if proof is Proof.ACCIDENT:
        total = sum(int(each.proofs[proof], 16) for each in (one, other))
        return digits(total % (1 << BITS))
    hashes: list[SetHash] = [each.hashes[proof] for each in (one, other)]
    return (hashes[0] + hashes[1]).text


def _erased(version: FrozenVersion, left: Content) -> ErasedVersion:
    """What the log says of a version from then on."""
    if version.only_against_accident:
        proofs = {Proof.VALUES: left.proofs[Proof.ACCIDENT]}
    else:
        proofs = {**left.proofs}
    return ErasedVersion(
        version=version.number,
        rows_before=version.rows,
        rows=left.rows,
        fingerprint=proofs[Proof.VALUES],
        record_fingerprint=proofs.get(Proof.RECORDS, ""),
        lanes={proof.value: hashed.encoded for proof, hashed in left.hashes.items()},
    )
