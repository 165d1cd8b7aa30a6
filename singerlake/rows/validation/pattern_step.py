"""A step that holds texts against regular expressions as JSON Schema has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jsonschema_rs
import pyarrow as pa

from singerlake.rows.batches.steps import Batches


@dataclass
class PatternStep:
    """Puts behind the columns of rows, for each pattern, whether its column breaks it.

    Attributes:
        patterns: Indexes of columns, each with a pattern. A value that is no text breaks it.
    """

    patterns: Sequence[tuple[int, str]]

    def __call__(self, batches: Batches) -> Batches:
        """Look at each batch."""
        checks = [
            (index, jsonschema_rs.validator_for({"pattern": pattern}))
            for index, pattern in self.patterns
        ]
        for batch in batches:
            found = [
                pa.array(
                    [
                        value is not None and not (isinstance(value, str) and check.is_valid(value))
                        for value in batch.column(index).to_pylist()
                    ],
                    pa.bool_(),
                )
                for index, check in checks
            ]
            names = [*batch.schema.names, *(f"broken{n}" for n in range(len(found)))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *found], names)
