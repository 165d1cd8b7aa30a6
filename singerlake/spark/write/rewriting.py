"""What tasks are brought that write blocks again, and what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from singerlake.maintenance.rewriting import WRITTEN, described
from singerlake.records.blocks.block_tasks import MARK
from singerlake.records.rows.steps import Batches

__all__ = ["WRITTEN", "Positions", "by_task", "described"]

Positions: TypeAlias = NDArray[np.int64]
"""Rows of two numbers: the block that a row came in, and its ordinal there."""


def by_task(batches: Batches) -> Iterator[tuple[bytes, Positions]]:
    """Give what each task must know, and its positions in order; see ``routing.route``."""
    present = -1
    work = b""
    gathered: list[Positions] = []
    for batch in batches:
        tasks = batch.column("task").to_numpy()
        rows = np.stack([batch.column("block").to_numpy(), batch.column("row").to_numpy()], axis=1)
        cuts = np.flatnonzero(np.diff(tasks)) + 1
        for begin, end in zip([0, *cuts], [*cuts, len(tasks)], strict=True):
            if begin == end:
                continue
            if tasks[begin] != present:
                if gathered:
                    yield work, _positions(gathered)
                present, gathered = int(tasks[begin]), []
                work = batch.column("work")[begin].as_py()
            gathered.append(rows[begin:end].astype(np.int64))
    if gathered:
        yield work, _positions(gathered)


def _positions(gathered: list[Positions]) -> Positions:
    rows: Positions = np.concatenate(gathered)
    kept: Positions = rows[rows[:, 1] != MARK]
    return kept
