"""The rows of a state from its index, file by file, in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.rows.batches.row_columns import DELETED
from singerlake.rows.batches.steps import Batches
from singerlake.rows.state import layer_keys
from singerlake.rows.state.parquet_parts import WHOLE, Part, PartReader, Share
from singerlake.rows.state.shape import Shape
from singerlake.snapshot.index import Index


@dataclass
class StateReader:
    """Reads the files of an index, and of the one that it is a layer on. Picklable.

    Attributes:
        shape: The table's shape.
        own: Reads the index's own files.
        below: Reads those below a layer; None where the index holds a whole state.
    """

    shape: Shape
    own: PartReader
    below: PartReader | None = None

    @classmethod
    def of(cls, index: Index) -> StateReader:
        """Make one for an index."""
        below = index.below.reader() if index.below is not None else None
        return cls(index.shape, index.reader(), below)

    @property
    def parts(self) -> int:
        """The number of files."""
        return len(self.own.parts) + (len(self.below.parts) if self.below is not None else 0)

    @classmethod
    def proven(cls, index: Index) -> StateReader:
        """Make one for an index whose files were checked just now: see ``index.sound``."""
        made = cls.of(index)
        below = replace(made.below, proven=True) if made.below is not None else None
        return cls(made.shape, replace(made.own, proven=True), below)

    def rows(self, columns: Sequence[str], row_filter: pc.Expression | None = None) -> Batches:
        """Read the rows of the state, one file in memory at a time.

        Args:
            columns: Those wanted, by what they are called inside.
            row_filter: Over the columns' own names: rows that it does not keep may be left out.

        Raises:
            IndexDamagedError: A file is not what was written.
            KeyMissingError: One is gone.
        """
        changed = self._changed()
        for number in range(self.parts):
            yield from self._part(number, columns, changed, row_filter)

    def part(
        self,
        number: int,
        columns: Sequence[str],
        row_filter: pc.Expression | None = None,
        share: Share = WHOLE,
    ) -> Batches:
        """Read the rows that one of the files has of the state.

        Args:
            number: The file's.
            columns: As for :meth:`rows`.
            row_filter: As for :meth:`rows`.
            share: Which share of the file's row groups.
        """
        changed = self._changed() if number >= len(self.own.parts) else None
        yield from self._part(number, columns, changed, row_filter, share)

    def groups(self, number: int, row_filter: pc.Expression) -> int:
        """Count the row groups of one of the files that a filter needs.

        Args:
            number: The file's.
            row_filter: As for :meth:`rows`.
        """
        if self.below is None or number < len(self.own.parts):
            return self.own.groups(self.own.parts[number], row_filter)
        return self.below.groups(self.below.parts[number - len(self.own.parts)], row_filter)

    def _part(
        self,
        number: int,
        columns: Sequence[str],
        changed: pa.Table | None,
        row_filter: pc.Expression | None = None,
        share: Share = WHOLE,
    ) -> Batches:
        if self.below is None:
            yield from self.own.select(self.own.parts[number], columns, row_filter, share)
        elif number < len(self.own.parts):
            own = self.own.select(self.own.parts[number], [*columns, DELETED], row_filter, share)
            for batch in own:
                yield batch.filter(pc.invert(batch[DELETED])).drop_columns([DELETED])
        else:
            part = self.below.parts[number - len(self.own.parts)]
            below = self.below.select(part, self._keyed(columns), row_filter, share)
            for batch in self._unchanged(below, changed):
                yield batch.select(list(columns))

    def _unchanged(self, batches: Batches, changed: pa.Table | None) -> Iterator[pa.RecordBatch]:
        """The rows of a file below whose key the layer does not have, compared all at once."""
        if changed is None:
            yield from batches
            return
        below = list(batches)
        if below:
            whole = pa.Table.from_batches(below)
            kept = whole.filter(layer_keys.unchanged(whole, changed, self.shape))
            yield from kept.to_batches()

    def _changed(self) -> pa.Table | None:
        """The keys of the layer; None where it hides no row below it."""
        if self.below is None or not self.shape.keys:
            return None
        batches = [batch for part in self.own.parts for batch in self._keys(part)]
        return layer_keys.changed_keys(batches, self.shape) if batches else None

    def _keys(self, part: Part) -> Batches:
        return self.own.select(part, self.shape.key_aliases)

    def _keyed(self, columns: Sequence[str]) -> list[str]:
        """These columns, and those of the key behind them."""
        return list(dict.fromkeys((*columns, *self.shape.key_aliases)))
