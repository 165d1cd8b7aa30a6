"""A limit on what one row of a result may weigh, enforced where the row is computed.

``sequence(1, 100000000)`` is one value, and a short text can ask for it. It costs the executor
little; on its way to the driver and into Python it is copied, packed and unpacked until the
memory is gone. So each row is weighed before it leaves, and one that is too heavy is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm.failures import WEIGHT_MARK
from singerlake.engine.spark.jvm.many_columns import member, named, selected, struct, total
from singerlake.format.sql_tokens import quote
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.columns.weights import ITEM_BYTES, ROW_BYTES

_WIDEST = 4
"""Bytes of a character in UTF-8, at most."""


def limited(frame: DataFrame, most: int = ROW_BYTES) -> DataFrame:
    """Return the same rows; computing one that weighs more than ``most`` is an error."""
    fields = frame.schema.fields
    own = [field.name for field in fields]
    # Each renaming is another plan that Java analyses.
    renamed = len({name.lower() for name in own}) < len(own)
    names = aliases(len(own)) if renamed else [quote(name) for name in own]
    weights = [
        weight
        for name, field in zip(names, fields, strict=True)
        for weight in _weights(name, field.dataType)
    ]
    if not weights:
        return frame
    first, *others = names
    checks = f"{checked(first, total(weights), most)} as {first}"
    if renamed:
        return named(selected(named(frame, names), [checks, *others]), own)
    return selected(frame, [checks, *others])


def checked(value: str, weight: str, most: int = ROW_BYTES) -> str:
    """Write a value in SQL that is an error when it is computed, if its row weighs too much."""
    error = f"raise_error(concat('{WEIGHT_MARK}', cast({weight} as string), ' {most}'))"
    return f"case when {weight} > {most} then {error} else {value} end"


@dataclass(frozen=True)
class Shortened:
    """Rows with long values cut, as Spark gives them.

    Attributes:
        frame: The rows. A text has one character too many if it was longer than ``longest``.
        texts: The indexes of columns that are texts.
        longest: Characters of a text.
        pairs: The indexes of columns that are pairs now: of the value, and of a text that stands
            for it where it is too heavy: how its JSON begins.
    """

    frame: DataFrame
    texts: frozenset[int]
    longest: int
    pairs: frozenset[int]

    def row(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return a row of the frame as it is shown: a text that was cut ends in an ellipsis."""
        return tuple(self._shown(index, value) for index, value in enumerate(values))

    def _shown(self, index: int, value: Any) -> Any:
        if index in self.texts and value is not None and len(value) > self.longest:
            return f"{value[: self.longest]}…"
        if index in self.pairs:
            return value["value"] if value["text"] is None else value["text"]
        return value


def shortened(frame: DataFrame, longest: int, most: int) -> Shortened:
    """Cut long values, so that people get rows of which none weighs much more than ``most``.

    Args:
        longest: Texts of more characters are cut.
        most: The largest weight of a row; each column has an equal share.
    """
    fields = frame.schema.fields
    names = aliases(len(fields))
    share = most // max(1, len(names))
    longest = min(longest, share // _WIDEST)
    cut, texts, pairs = [], set(), set()
    for index, (name, field) in enumerate(zip(names, fields, strict=True)):
        value, type_ = name, field.dataType
        if isinstance(type_, T.StringType):
            # One expression a column: of thousands, Java compiles each.
            texts.add(index)
            value = f"substring({name}, 1, {longest + 1})"
        elif weights := _weights(name, type_):
            pairs.add(index)
            heavy = f"{total(weights)} > {share}"
            text = f"case when {heavy} then {_beginning(name, type_, longest)} end"
            whole = f"case when {heavy} then null else {name} end"
            value = struct([("value", whole), ("text", text)])
        cut.append(f"{value} as {name}")
    own = [field.name for field in fields]
    rows = named(selected(named(frame, names), cut), own)
    return Shortened(rows, frozenset(texts), longest, frozenset(pairs))


def _beginning(value: str, type_: T.DataType, longest: int) -> str:
    if isinstance(type_, T.BinaryType):
        text = f"base64(substring({value}, 1, {longest // 4 * 3}))"
        return f"concat(translate({text}, '\\r\\n', ''), '…')"
    return f"concat(left(to_json({value}), {longest}), '…')"


def _weights(value: str, type_: T.DataType, depth: int = 0) -> list[str]:
    """Write about how many bytes a value takes, as a sum in SQL; empty if always few.

    A null weighs nothing.
    """
    if isinstance(type_, (T.StringType, T.BinaryType)):  # char and varchar are strings
        return [f"octet_length({value})"]
    if isinstance(type_, T.ArrayType):
        return _items(value, type_.elementType, depth)
    if isinstance(type_, T.MapType):
        keys = _items(f"map_keys({value})", type_.keyType, depth)
        return keys + _items(f"map_values({value})", type_.valueType, depth)
    if isinstance(type_, T.StructType) and len(set(type_.names)) == len(type_.names):
        return [
            weight
            for field in type_.fields
            for weight in _weights(member(value, field.name), field.dataType, depth)
        ]
    if isinstance(type_, (T.StructType, T.VariantType)):
        # Members of one name cannot be asked for by it.
        return [f"octet_length(to_json({value}))"]
    return []


def _items(value: str, type_: T.DataType, depth: int) -> list[str]:
    count = f"cast(size({value}) as bigint) * {ITEM_BYTES}"
    before, item = f"before{depth}", f"item{depth}"
    weights = _weights(item, type_, depth + 1)
    if not weights:
        return [count]
    items = f"aggregate({value}, 0L, ({before}, {item}) -> {before} + {total(weights)})"
    return [count, items]
