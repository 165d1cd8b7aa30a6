"""Readers of a projection's rows: any engine for columns of a table; DuckDB or Spark for SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singerlake import extras
from singerlake.engine.choice import SPARK, EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.ops.publish.answer import Answer
from singerlake.ops.publish.table_columns import TableColumns, wanted
from singerlake.publish.projection import Projection
from singerlake.publish.versions import rows_query
from singerlake.sql.answers import LIBRARIES, first_here
from singerlake.sql.local.outside import OutsideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "publishing"


def opened(
    choice: EngineChoice, lake: Lake, name: str, sql: str, at: str | None = None
) -> Answer[Any]:
    """Begin to read the rows of a projection.

    Args:
        name: What messages call the projection.
        sql: One SELECT.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Raises:
        InvalidQueryError: It is no SELECT, or names a column that is not there.
        NotFoundError: It names a table or a version that is not there.
        UsageError: It has to be asked in SQL, and only this process may be used.
    """
    plain = wanted(lake, sql, at)
    if plain is not None:
        return TableColumns(choice.engine_for(plain.work(), WHAT), plain)

    def here() -> Answer[Any]:
        from singerlake.ops.publish.simple_sql import SimpleSql

        return SimpleSql(lake, sql, choice, at=at)

    def on_spark(purpose: str) -> Answer[Any]:
        spark = choice.session(purpose)
        from singerlake.ops.publish.projected import Projected

        return Projected(spark, lake, sql, at=at)

    return first_here(choice, f"the SQL of {name}", here, on_spark)


def instead(choice: EngineChoice, name: str, error: OutsideError) -> EngineChoice:
    """Choose Spark after DuckDB has given up on rows of a projection.

    Args:
        name: What messages call the projection.
        error: Says on what.

    Raises:
        UsageError: Only this process may be used.
        RuntimeMissingError: Spark is not installed.
    """

    def again() -> EngineChoice:
        raise error

    return first_here(choice, f"the SQL of {name}", again, lambda _: replace(choice, name=SPARK))


def session(choice: EngineChoice, sql: str) -> SparkSession:
    """Start Spark, or find the session that runs.

    Args:
        choice: Whether it may be used.

    Raises:
        UsageError: Only this process may be used.
    """
    choice.need_spark(WHAT, sql)
    engine: Any = choice.spark_engine(WHAT)
    spark: SparkSession = engine.spark
    return spark


def needs_spark(choice: EngineChoice, lake: Lake, projection: Projection) -> bool:
    """Tell, without reading a row, whether Spark may be needed to publish a projection anew."""
    if projection.stage is not None:
        return True
    sql = rows_query(projection)
    if (plain := wanted(lake, sql)) is not None:
        return not choice.takes(plain.work())
    if choice.name == SPARK or not extras.installed(*LIBRARIES):
        return True
    from singerlake.ops.publish.simple_sql import SimpleSql

    try:
        with SimpleSql(lake, sql, choice) as simple:
            return simple.may_give_up
    except (OutsideError, SingerlakeError):
        return True  # whoever reads it says why
