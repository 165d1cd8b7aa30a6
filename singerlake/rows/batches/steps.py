"""Steps of a job: functions over Arrow batches that run on the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

Batches: TypeAlias = Iterator[pa.RecordBatch]
Step: TypeAlias = Callable[[Batches], Batches]
BATCH_ROWS = 16_384
"""Rows at which a step that reads lets a batch go."""


@dataclass
class Pipeline:
    """Steps that run as one, each taking what the one before it gives.

    Attributes:
        steps: In order.
    """

    steps: tuple[Step, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Run them."""
        for step in self.steps:
            batches = step(batches)
        return batches
