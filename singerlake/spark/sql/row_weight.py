"""A limit on what one row of a result may weigh, enforced where the row is computed.

``sequence(1, 100000000)`` is one value, and a short text can ask for it. It costs the executor
little; on its way to the driver and into Python it is copied, packed and unpacked until the
memory is gone. So each row is weighed before it leaves, and one that is too heavy is an error.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.format.sql_tokens import quote
from singerlake.records.rows.row_columns import aliases
from singerlake.spark.jvm.failures import ROW_BYTES, WEIGHT_MARK

_WIDEST = 4
"""Bytes of a character in UTF-8, at most."""
_FIXED = 16
"""Bytes of a value whose size its type tells, the largest of them."""


def limited(frame: DataFrame, most: int = ROW_BYTES) -> DataFrame:
    """Give the same rows; one that weighs more than ``most`` is an error when it is computed."""
    fields = frame.schema.fields
    own = [field.name for field in fields]
    # Each renaming is another plan that Java analyses.
    renamed = len({name.lower() for name in own}) < len(own)
    names = aliases(len(own)) if renamed else [quote(name) for name in own]
    weights = [
        weight
        for name, field in zip(names, fields, strict=True)
        if (weight := _weight(name, field.dataType)) is not None
    ]
    if not weights:
        return frame
    whole = " + ".join(weights)
    error = f"raise_error(concat('{WEIGHT_MARK}', cast({whole} as string), ' {most}'))"
    first, *others = names
    # As text: each function that is called from here asks Java several times.
    checked = f"case when {whole} > {most} then {error} else {first} end as {first}"
    if renamed:
        return frame.toDF(*names).selectExpr(checked, *others).toDF(*own)
    return frame.selectExpr(checked, *others)


def shortened(frame: DataFrame, longest: int, most: int) -> tuple[DataFrame, set[int]]:
    """Give the same rows for people, none of which weighs much more than that.

    Args:
        frame: The rows.
        longest: Texts of more characters end in an ellipsis.
        most: What a row may weigh; each column has an equal share.

    Returns:
        The rows, and the indexes of columns that are pairs now: of the value, and of a text that
        stands for it where it is too heavy: how its JSON begins.
    """
    names = aliases(len(frame.columns))
    share = most // max(1, len(names))
    longest = min(longest, share // _WIDEST)
    cut, pairs = [], set()
    for index, (name, field) in enumerate(zip(names, frame.schema.fields, strict=True)):
        value, type_ = F.col(name), field.dataType
        if isinstance(type_, T.StringType):
            value = _cut(value, longest)
        elif (weight := _weight(name, type_)) is not None:
            pairs.add(index)
            heavy = F.expr(weight) > share
            text = F.when(heavy, _beginning(value, type_, longest))
            value = F.struct(F.when(~heavy, value).alias("value"), text.alias("text"))
        cut.append(value.alias(name))
    return frame.toDF(*names).select(*cut).toDF(*frame.columns), pairs


def _cut(text: Column, longest: int) -> Column:
    beginning = F.concat(F.left(text, F.lit(longest)), F.lit("…"))
    return F.when(F.length(text) > longest, beginning).otherwise(text)


def _beginning(value: Column, type_: T.DataType, longest: int) -> Column:
    if isinstance(type_, T.BinaryType):
        text = F.base64(F.substring(value, 1, longest // 4 * 3))
        return F.concat(F.translate(text, "\r\n", ""), F.lit("…"))
    return F.concat(F.left(F.to_json(value), F.lit(longest)), F.lit("…"))


def _weight(value: str, type_: T.DataType, depth: int = 0) -> str | None:
    """About how many bytes a value takes, in SQL; None where they are few whatever it is."""
    if isinstance(type_, (T.StringType, T.BinaryType)):  # char and varchar are strings
        return _or_none(f"octet_length({value})")
    if isinstance(type_, T.ArrayType):
        return _items(value, type_.elementType, depth)
    if isinstance(type_, T.MapType):
        keys = _items(f"map_keys({value})", type_.keyType, depth)
        return f"{keys} + {_items(f'map_values({value})', type_.valueType, depth)}"
    if isinstance(type_, T.StructType):
        return _members(value, type_, depth)
    if isinstance(type_, T.VariantType):
        return _or_none(f"octet_length(to_json({value}))")
    return None


def _items(value: str, type_: T.DataType, depth: int) -> str:
    count = f"{_or_none(f'size({value})')} * {_FIXED}"
    before, item = f"before{depth}", f"item{depth}"
    weight = _weight(item, type_, depth + 1)
    if weight is None:
        return count
    total = f"aggregate({value}, 0L, ({before}, {item}) -> {before} + {weight})"
    return f"{count} + {_or_none(total)}"


def _members(value: str, type_: T.StructType, depth: int) -> str | None:
    if len(set(type_.names)) < len(type_.names):  # then they cannot be asked for by name
        return _or_none(f"octet_length(to_json({value}))")
    weights = [
        weight
        for field in type_.fields
        if (weight := _weight(f"{value}.{quote(field.name)}", field.dataType, depth)) is not None
    ]
    return " + ".join(weights) or None


def _or_none(bytes_: str) -> str:
    """A null weighs nothing."""
    return f"coalesce(cast({bytes_} as bigint), 0L)"
