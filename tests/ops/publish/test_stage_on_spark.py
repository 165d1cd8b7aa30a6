"""Staging tables that Spark computes: all tests of ``test_stage.py``, and SQL beyond the set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import EngineChoice
from singerlake.errors import InvalidQueryError
from singerlake.lake import Lake
from tests.frozen import on
from tests.ops.publish.test_stage import (
    OPEN,
    order,
    refresh,
    rows,
    sync,
    test_a_key_that_is_none_is_told_with_its_values,
    test_a_refresh_takes_no_staging_table_back,
    test_a_refresh_that_ends_early_is_all_or_nothing,
    test_a_refresh_that_was_overtaken_begins_anew,
    test_a_staging_table_is_a_source_like_any_other,
    test_columns_follow_the_sql,
    test_only_a_table_that_a_projection_made_is_replaced,
    test_only_the_rows_that_changed_are_written,
    test_sources_are_read_at_a_version,
    test_what_becomes_of_the_source_is_followed,
    test_what_is_computed_anew_is_compared,
    test_what_others_did_to_it_is_undone,
    test_without_a_key_all_rows_are_replaced_where_they_differ,
)

__all__ = [
    "test_a_key_that_is_none_is_told_with_its_values",
    "test_a_refresh_takes_no_staging_table_back",
    "test_a_refresh_that_ends_early_is_all_or_nothing",
    "test_a_refresh_that_was_overtaken_begins_anew",
    "test_a_staging_table_is_a_source_like_any_other",
    "test_columns_follow_the_sql",
    "test_only_a_table_that_a_projection_made_is_replaced",
    "test_only_the_rows_that_changed_are_written",
    "test_sources_are_read_at_a_version",
    "test_what_becomes_of_the_source_is_followed",
    "test_what_is_computed_anew_is_compared",
    "test_what_others_did_to_it_is_undone",
    "test_without_a_key_all_rows_are_replaced_where_they_differ",
]


@pytest.fixture
def choice(spark: SparkSession) -> EngineChoice:
    return on(spark)


def test_another_key_is_followed(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2, "paid"), order(3, "paid"))
    refresh(choice, lake, replace(OPEN, sql="select id, status from tap_shop.orders"))
    other = replace(
        OPEN,
        sql="select id, explode(array(1, 2)) as part, status from tap_shop.orders where id > 1",
        key=("id", "part"),
    )
    done = refresh(choice, lake, other)
    assert "the definition changed: sql, key" in done.why
    assert rows(lake) == [(2, "paid", 1), (2, "paid", 2), (3, "paid", 1), (3, "paid", 2)]
    # What was of the key may be null now.
    one = "select status, nullif(min(id), 2) as id from tap_shop.orders group by 1"
    refresh(choice, lake, replace(OPEN, sql=one, key=("status",)))
    assert rows(lake) == [(1, "new"), (None, "paid")]


def test_an_incremental_one_answers_the_same_each_time(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1))
    today = replace(OPEN, sql="select id, current_date() as day from tap_shop.orders")
    with pytest.raises(InvalidQueryError, match="the SQL of the projection open_orders calls cur"):
        refresh(choice, lake, today)
    today = replace(today, incremental=False)
    refresh(choice, lake, today)
    sync(lake, order(2))
    assert refresh(choice, lake, today).why == "the projection is not incremental"
