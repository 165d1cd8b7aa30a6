"""SQL that asks for values without measure: one plain line, soon, and memory that stays."""

from __future__ import annotations

import resource
import time

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import InvalidQueryError, SingerlakeError
from singerlake.lake import Lake
from singerlake.rows.columns.weights import GLIMPSE_CHARACTERS
from singerlake.sql import row_weight
from singerlake.sql.queries.query import query
from singerlake.sql.result import plain_rows
from tests.build import commit_rows

OVERWEIGHT = [
    "select sequence(1, id) from range(100000000, 100000001)",
    "select 1, array_repeat(repeat('x', 100000), 5000)",
]


@pytest.mark.parametrize("sql", OVERWEIGHT)
def test_a_row_without_measure_is_one_plain_line(spark: SparkSession, lake: Lake, sql: str) -> None:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(SingerlakeError) as caught:
        list(query(spark, lake, sql).rows())
    # Which of the two it meets first is a matter of the heap.
    assert "a row of the result takes" in str(caught.value) or "memory" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "collectToPython" not in str(caught.value)
    assert time.monotonic() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [
        ("'äx'", 3),
        ("cast('abc' as binary)", 3),
        ("array(1, 2)", 32),
        ("array('ab', null, 'c')", 51),
        ("array(array('ab'), null)", 50),
        ("map('k', 'vv')", 35),
        ("named_struct('a.b', 'xx', 'c', 1, 'd', named_struct('e', 'y'))", 3),
        ("named_struct('a', 'xx', 'a', 'yy')", 19),
        ('parse_json(\'{"a": "bc"}\')', 10),
        ("cast(null as string)", 0),
        ("cast(null as array<string>)", 0),
    ],
)
def test_what_a_value_weighs(spark: SparkSession, value: str, bytes_: int) -> None:
    frame = spark.sql(f"select {value} as v, 1 as v, 'z' as `a.b`")
    assert row_weight.limited(frame, bytes_ + 1).columns == ["v", "v", "a.b"]
    assert len(list(plain_rows(row_weight.limited(frame, bytes_ + 1)))) == 1
    with pytest.raises(InvalidQueryError, match=f"takes {bytes_ + 1:,} bytes"):
        list(plain_rows(row_weight.limited(frame, bytes_)))


def test_a_result_is_weighed_whatever_its_columns_are_called(spark: SparkSession) -> None:
    for names in (["a`b", "item0", "x.y"], ["a", "A", "c0"], ["", "select", "a b"]):
        frame = spark.sql("select 'x', array('y'), 3").toDF(*names)
        weighed = row_weight.limited(frame, 18)
        assert weighed.columns == names
        assert weighed.collect() == [("x", ["y"], 3)]
        with pytest.raises(InvalidQueryError, match="takes 18 bytes"):
            list(plain_rows(row_weight.limited(frame, 17)))


def test_what_is_small_by_its_type_is_not_weighed(spark: SparkSession) -> None:
    frame = spark.sql("select 1, 2.0, true, current_date()")
    assert row_weight.limited(frame, 0) is frame


def test_long_texts_are_cut_for_people_only(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "t.s", {"a": {"type": "string"}}, [], [{"a": "ä" * 20_000}, {"a": None}])
    answer = query(spark, lake, "select a, array(a) as l, a from t.s order by a desc")
    assert answer.first(1) == [("ä" * 20_000, ["ä" * 20_000], "ä" * 20_000)]
    cut = "ä" * GLIMPSE_CHARACTERS + "…"
    assert answer.glimpse(5) == [(cut, ["ä" * 20_000], cut), (None, [None], None)]


LONG = {
    "sequence(1, 65537 * id)": "[1,2,3,",
    "array_repeat(repeat('ä', 20000), 30 * cast(id as int))": '["ää',
    "named_struct('a', repeat('x', 2000000 * cast(id as int)))": '{"a":"xxx',
    "map('k', repeat('x', 2000000 * cast(id as int)))": '{"k":"xxx',
    "cast(repeat('abc', 2000000 * cast(id as int)) as binary)": "YWJjYWJj",
    "named_struct('a', repeat('x', 2000000 * cast(id as int)), 'a', 1)": '{"a":"xxx',
    "parse_json(concat('[', repeat('1,', 1000000 * cast(id as int)), '1]'))": "[1,1,",
    "named_struct('t', timestamp'2026-01-02 03:04:05', 'i', interval 1 day, "
    "'s', repeat('x', 2000000 * cast(id as int)))": '{"t":"2026-01-02T03:04:05',
}


def test_what_is_merely_long_is_cut_for_people(spark: SparkSession, lake: Lake) -> None:
    values = ", ".join(LONG)
    (row,) = query(spark, lake, f"select id, {values} from range(1, 2)").glimpse(5)
    assert row[0] == 1
    for value, beginning in zip(row[1:], LONG.values(), strict=True):
        assert value.startswith(beginning)
        assert value.endswith("…")
        assert len(value) <= GLIMPSE_CHARACTERS + 1
    texts = ", ".join(["repeat('😀', 9000)"] * 40)  # 1.4 MB of texts none of which is long
    (row,) = query(spark, lake, f"select {texts}, array(1, null), null").glimpse(5)
    assert all(text.endswith("…") for text in row[:40])
    assert row[40:] == ([1, None], None)


@pytest.mark.parametrize(
    "sql",
    [
        "sequence(1, 100000000)",
        "sequence(-100000000, 100000000, 2)",
        "1, (select max(x) from (select size(sequence(100000000, -1, -1)) as x))",
        "array_repeat(1, 100000000)",
        "repeat('x', 200000000)",
        "length(space(200000000))",
        "lpad('x', 200000000)",
        "rpad('x', 200000000, 'y')",
    ],
)
def test_lengths_that_are_written_out_are_refused_at_once(
    spark: SparkSession, lake: Lake, sql: str
) -> None:
    began = time.monotonic()
    with pytest.raises(
        InvalidQueryError, match=r"\(\) is asked for [12]\d\d,\d\d\d,\d\d\d at once"
    ):
        query(spark, lake, f"select {sql}")
    assert time.monotonic() - began < 5


def test_lengths_that_a_row_may_have_are_not_refused(spark: SparkSession, lake: Lake) -> None:
    sql = (
        "size(sequence(1, 1000000)), size(sequence(3, 1, -1)), size(sequence(date'2026-01-01', "
        "date'2026-01-03')), length(repeat('x', 100)), size(sequence(1, 2000000000, 1000000000)), "
        "repeat('x', null), size(sequence(tinyint(1), tinyint(3)))"
    )
    (row,) = query(spark, lake, f"select {sql}").rows()
    assert row == (1_000_000, 3, 3, 100, 2, None, 3)


def test_an_answer_that_the_driver_cannot_hold(spark: SparkSession, lake: Lake) -> None:
    text = "Job aborted: Total size of serialized results of 3 tasks (1030.0 MiB) is bigger than "
    text += "spark.driver.maxResultSize (1024.0 MiB)"
    failing = spark.range(1).select(F.raise_error(F.lit(text)))
    words = "takes 1030.0 MiB.*--conf spark.driver.maxRes"
    with pytest.raises(SingerlakeError, match=words), plain_errors():
        failing.collect()


def test_a_task_without_memory_does_not_end_java(spark: SparkSession, lake: Lake) -> None:
    sql = "select length(repeat('x', cast(id as int))) from range(2000000000, 2000000001)"
    for _ in range(2):
        with pytest.raises(SingerlakeError, match="not enough memory.*spark.driver.memory=8g"):
            list(query(spark, lake, sql).rows())
    assert list(query(spark, lake, "select 1").rows()) == [(1,)]


@pytest.mark.parametrize("error", [Py4JNetworkError, ConnectionRefusedError, EOFError])
def test_java_that_ends_is_one_line(error: type[Exception]) -> None:
    words = "Java ended, most likely for lack of memory: request"
    with pytest.raises(SingerlakeError, match=words), plain_errors():
        raise error("Error while sending or receiving")
