"""Rows of an answer that this process computes, fetched as those of a query are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.weights import GLIMPSE_BYTES, GLIMPSE_CHARACTERS, weights

_WIDEST = 4
"""Bytes of a character in UTF-8, at most."""


class Result(Protocol):
    """Rows that are fetched when they are taken, whatever computes them."""

    @property
    def columns(self) -> list[str]:
        """The columns' names."""

    @property
    def sources(self) -> Sequence[Any]:
        """The tables that a query has read."""

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Give the rows in Python's values, ``dict`` for an object; never all are in memory."""

    def glimpse(self, count: int) -> list[tuple[Any, ...]]:
        """Return the first rows for people: long texts are cut.

        A value of another type that is long is the text that its JSON begins with.
        """

    def batches(self) -> Batches:
        """Give the rows as Arrow batches; at least one, which may be empty."""

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""


@dataclass(frozen=True)
class LocalResult:
    """Rows in Arrow, computed in this process; see :class:`Result`.

    Attributes:
        schema: Their columns.
        computed: Computes them, from the beginning whenever it is called.
    """

    schema: pa.Schema
    computed: Callable[[], Batches]
    sources: Sequence[Any] = ()

    @property
    def columns(self) -> list[str]:  # noqa: D102
        return list(self.schema.names)

    def rows(self) -> Iterator[tuple[Any, ...]]:  # noqa: D102
        for batch in self.computed():
            yield from zip(*(_values(column) for column in batch.columns), strict=True)

    def glimpse(self, count: int) -> list[tuple[Any, ...]]:  # noqa: D102
        share = GLIMPSE_BYTES // max(1, len(self.columns))
        longest = min(GLIMPSE_CHARACTERS, share // _WIDEST)
        found: list[tuple[Any, ...]] = []
        for batch in self.computed():
            some = batch.slice(0, count - len(found))
            cells = (_shortened(column, longest, share) for column in some.columns)
            found += zip(*cells, strict=True)
            if len(found) == count:
                break
        return found

    def batches(self) -> Batches:  # noqa: D102
        yield pa.RecordBatch.from_pylist([], self.schema)
        yield from self.computed()

    def to_arrow(self) -> pa.Table:  # noqa: D102
        return pa.Table.from_batches(self.batches())


def _shortened(column: pa.Array, longest: int, share: int) -> list[Any]:
    values = _values(column)
    if pa.types.is_string(column.type):
        return [t if t is None or len(t) <= longest else f"{t[:longest]}…" for t in values]
    for place in np.flatnonzero(weights(column) > share).tolist():
        values[place] = f"{_json(values[place])[:longest]}…"
    return values


def _values(column: pa.Array) -> list[Any]:
    """Return the values in Python's, as Spark gives them: Arrow has a time zone of its own."""
    values: list[Any] = column.to_pylist()
    if (in_utc := _in_utc(column.type)) is None:
        return values
    return [None if value is None else in_utc(value) for value in values]


def _in_utc(type_: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what puts the times in a value into UTC as Python knows it; None if there are none."""
    if pa.types.is_timestamp(type_):
        return lambda value: value.replace(tzinfo=timezone.utc)
    if pa.types.is_list(type_) and (item := _in_utc(type_.value_type)) is not None:
        return lambda value: [None if one is None else item(one) for one in value]
    if not pa.types.is_struct(type_):
        return None
    members = {field.name: inner for field in type_ if (inner := _in_utc(field.type)) is not None}
    if not members:
        return None
    return lambda value: {
        name: members[name](one) if one is not None and name in members else one
        for name, one in value.items()
    }


def _json(value: Any) -> str:
    return json.dumps(_without_nulls(value), ensure_ascii=False, default=str, separators=(",", ":"))


def _without_nulls(value: Any) -> Any:
    """A value as Spark writes it in JSON: members that are null are left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
