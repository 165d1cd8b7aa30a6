"""An index of what one run of a tap brought: read once, for a tap seldom sends a row twice.

Each task reads its blocks whole and writes their rows to a candidate file as they come, while
the keys go the way they go in ``state.py``. A file of which every row turns out to be the newest
stands; the others are deleted and their rows read again, only the right ones. So a wrong guess
costs time, never an answer. It spares the first index of a table a quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from singerlake.spark import keys, state
from singerlake.spark.fold import Survival
from singerlake.spark.frames import BLOCK, ORDINAL, BlockReader
from singerlake.spark.parts import WRITTEN, PartWriter
from singerlake.spark.state import Batches, NewestStep, Plan, RowStep
from singerlake.transactions.snapshot import Snapshot

_SHARED = "part int, keys binary, candidate binary"
_PICKED = "run int, picked binary, candidate binary"


class Candidate(msgspec.Struct):
    """A file that a task wrote before it was known which rows are the newest.

    Attributes:
        run: Whose rows.
        keys: How many keys the run has.
        path: The file's name; empty where nothing was written.
        rows: Rows in it: those of the keys that are not deleted.
        bytes: Its size.
        hash: That of its bytes.
        misfits: How many values do not fit, as the writer says it.
    """

    run: int
    keys: int
    path: str = ""
    rows: int = 0
    bytes: int = 0
    hash: str = ""
    misfits: str = "{}"


_CANDIDATE = msgspec.json.Decoder(Candidate)


def likely(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether no row is likely to be there twice: all came from one writer."""
    if not plan.shape.keys or len(plan.runs) <= 1:
        return False
    first, last = plan.runs[0][0].number, plan.runs[-1][-1].number
    begin, end = (snapshot.transaction_of_block(number) for number in (first, last))
    return len({snapshot.summary(n).writer for n in range(begin, end + 1)}) == 1


def written(spark: SparkSession, plan: Plan, writer: PartWriter) -> DataFrame:
    """Write the state's rows; as many words come back as of a ``PartWriter``."""
    first = CandidateStep(plan.reader, plan.shape.keys, plan.shape.survival, plan.parts, writer)
    shared = plan.numbered(spark).mapInArrow(first, _SHARED)
    newest = shared.repartitionById(plan.parts, "part")
    picked = newest.mapInArrow(NewestWithCandidates(plan.ends), _PICKED)
    last = LastStep(RowStep(plan.reader, plan.shape.survival, writer), writer)
    return picked.repartitionById(len(plan.runs), "run").mapInArrow(last, WRITTEN)


@dataclass
class CandidateStep:
    """Reads runs whole, writes their rows, and shares their keys out.

    Attributes:
        reader: Reads all the columns.
        places: Places of the key columns.
        survival: What the activations leave.
        parts: Parts that keys are shared out to.
        writer: Writes files.
    """

    reader: BlockReader
    places: tuple[int, ...]
    survival: Survival
    parts: int
    writer: PartWriter

    def __call__(self, numbers: Batches) -> Batches:
        """Read the runs whose numbers come in."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._run(number)

    def _run(self, number: int) -> Batches:
        some: list[pa.Table] = []
        files = list(self.writer(self._rows(number, some)))
        found = keys.newest(some)
        shared = state.shared_out(found, self.parts)
        nothing = pa.nulls(len(shared), pa.binary())
        yield shared.append_column("candidate", nothing)
        candidate = Candidate(number, len(found))
        # A file with rows that another of the same run replaces cannot stand.
        wrong = len(found) != sum(map(len, some))
        for file in files:
            (written,) = file.to_pylist()
            if wrong:
                self.writer.remove(written["path"])
            else:
                candidate = Candidate(number, len(found), **written)
        if not wrong:
            data = msgspec.json.encode(candidate)
            yield pa.RecordBatch.from_arrays(
                [pa.array([0], pa.int32()), pa.nulls(1, pa.binary()), pa.array([data])],
                ["part", "keys", "candidate"],
            )

    def _rows(self, number: int, some: list[pa.Table]) -> Batches:
        """Rows of a run to be written at once; their keys are noted."""
        for batch in self.reader.rows(self.reader.run(number)):
            some.append(self._keys(batch))
            yield state.judged(batch, self.survival)

    def _keys(self, batch: pa.RecordBatch) -> pa.Table:
        arrays = [batch.column(place) for place in self.places]
        columns = tuple(self.reader.target[place] for place in self.places)
        return keys.table(arrays, columns, _positions(batch))


@dataclass
class NewestWithCandidates(NewestStep):
    """As :class:`NewestStep`; what is known of candidates goes on to their runs."""

    def __call__(self, parts: Batches) -> Batches:
        """Find the newest rows in the keys of one part, all that there are."""
        waiting: list[bytes] = []
        for found in super().__call__(_without(parts, waiting)):
            yield found.append_column("candidate", pa.nulls(len(found), pa.binary()))
        for data in waiting:
            run = _CANDIDATE.decode(data).run
            yield pa.RecordBatch.from_arrays(
                [pa.array([run], pa.int32()), pa.nulls(1, pa.binary()), pa.array([data])],
                ["run", "picked", "candidate"],
            )


def _without(parts: Batches, waiting: list[bytes]) -> Iterator[pa.RecordBatch]:
    for batch in parts:
        waiting.extend(data for data in batch.column("candidate").to_pylist() if data)
        yield batch.filter(batch.column("keys").is_valid())


@dataclass
class LastStep:
    """Lets a candidate stand, or writes its run's newest rows in its place.

    Attributes:
        rows: Reads rows and hands them to ``writer``.
        writer: Writes files.
    """

    rows: RowStep
    writer: PartWriter

    def __call__(self, batches: Batches) -> Batches:
        """Take all that is known of one run."""
        picked: list[bytes] = []
        candidate: Candidate | None = None
        number = -1
        for batch in batches:
            for run, positions, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                number = run
                if data:
                    candidate = _CANDIDATE.decode(data)
                else:
                    picked.append(positions)
        if number < 0:
            return
        count = sum(map(len, picked)) // 8
        if candidate is not None and candidate.keys == count:
            if candidate.path:
                yield pa.RecordBatch.from_pydict(
                    {
                        "path": [candidate.path],
                        "rows": [candidate.rows],
                        "bytes": [candidate.bytes],
                        "hash": [candidate.hash],
                        "misfits": [candidate.misfits],
                    }
                )
            return
        if candidate is not None and candidate.path:
            self.writer.remove(candidate.path)
        asked = [pa.array([number] * len(picked), pa.int32()), pa.array(picked, pa.binary())]
        yield from self.rows(iter([pa.RecordBatch.from_arrays(asked, ["run", "picked"])]))


def _positions(batch: pa.RecordBatch) -> NDArray[np.int64]:
    return keys.codes(batch.column(BLOCK).to_numpy(), batch.column(ORDINAL).to_numpy())
