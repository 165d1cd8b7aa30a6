"""Decimals are read with 38 digits: all that declared digits have room for has room so, too."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from singerlake.engine.spark.jvm.settings import EXACT_DECIMALS
from singerlake.format.types import DIGITS

Pair = tuple[tuple[int, int], tuple[int, int]]
EXACT = [
    *("{a} * {b}", "{a} + {b}", "{a} - {b}", "{a} % {b}", "{a} * {b} * {a}", "{a} * {b} + {a}"),
    *("{a} * 3", "{a} * 0.19", "{a} + 1", "-{a}", "abs({a})", "round({a}, 1)"),
    *("coalesce({a}, {b})", "if(true, {a}, {b})", "greatest({a}, {b})", "nullif({a}, {b})"),
]
OF_MANY_ROWS = ["sum({a})", "avg({a})", "max({a})", "sum({a} * {b})"]


def declared(seed: int) -> list[Pair]:
    """Pairs of digits and digits after the point, as columns may declare them."""
    choose = random.Random(seed)

    def one() -> tuple[int, int]:
        digits = choose.randint(1, DIGITS)
        return digits, choose.randint(0, digits)

    return [((12, 8), (12, 2)), ((18, 2), (18, 4)), *((one(), one()) for _ in range(40))]


def types(
    spark: SparkSession, operations: Sequence[str], pairs: Sequence[Pair]
) -> list[T.DecimalType]:
    """The types that Spark gives each operation on each pair."""
    own = spark.newSession()
    for name, value in EXACT_DECIMALS.items():
        own.conf.set(name, value)
    texts = [
        operation.format(
            a=f"cast(null as decimal({a[0]},{a[1]}))", b=f"cast(null as decimal({b[0]},{b[1]}))"
        )
        for a, b in pairs
        for operation in operations
    ]
    columns = ", ".join(f"{text} as c{n}" for n, text in enumerate(texts))
    found = [field.dataType for field in own.sql(f"select {columns}").schema]
    assert all(isinstance(one, T.DecimalType) for one in found)
    return found  # type: ignore[return-value]


def as_read(pairs: Sequence[Pair]) -> list[Pair]:
    return [((DIGITS, a), (DIGITS, b)) for (_, a), (_, b) in pairs]


@pytest.mark.parametrize("operations", [EXACT, OF_MANY_ROWS])
def test_operation_has_room_for_all_that_declared_digits_have_room_for(
    spark: SparkSession, operations: list[str]
) -> None:
    pairs = declared(122)
    narrow, wide = types(spark, operations, pairs), types(spark, operations, as_read(pairs))
    for n, (of_declared, of_read) in enumerate(zip(narrow, wide, strict=True)):
        case = operations[n % len(operations)], pairs[n // len(operations)]
        assert of_read.scale >= of_declared.scale, case
        whole = of_declared.precision - of_declared.scale
        assert of_read.precision - of_read.scale >= whole, case


def test_quotient_of_declared_digits_is_another_which_a_cast_gives(spark: SparkSession) -> None:
    pairs: list[Pair] = [((20, 2), (10, 8)), ((12, 2), (12, 2))]
    names = [one.simpleString() for one in types(spark, ["{a} / {b}"], pairs)]
    read = [one.simpleString() for one in types(spark, ["{a} / {b}"], as_read(pairs))]
    assert (names, read) == (
        ["decimal(38,12)", "decimal(27,15)"],
        ["decimal(38,18)", "decimal(38,18)"],
    )
