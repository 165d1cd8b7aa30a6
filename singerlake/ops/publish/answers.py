"""Readers of a projection's rows: any engine for columns of a table; DuckDB or Spark for SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from singerlake import extras
from singerlake.engine.choice import SPARK, EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.log import log
from singerlake.ops.publish.answer import Answer, SqlAnswer
from singerlake.ops.publish.table_columns import TableColumns, wanted
from singerlake.publish.projection import Projection
from singerlake.publish.versions import rows_query
from singerlake.snapshot.from_blocks import reading
from singerlake.sql.answers import LIBRARIES, first_here
from singerlake.sql.local.outside import OutsideError

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
    return opened_sql(choice, lake, name, sql, at)


def opened_sql(
    choice: EngineChoice, lake: Lake, name: str, sql: str, at: str | None = None
) -> SqlAnswer[Any]:
    """Begin to compute SQL; see :func:`opened`."""

    def here() -> SqlAnswer[Any]:
        from singerlake.ops.publish.simple_sql import SimpleSql

        return SimpleSql(lake, sql, choice, at=at)

    def on_spark(purpose: str) -> SqlAnswer[Any]:
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


def needs_spark(choice: EngineChoice, lake: Lake, projection: Projection) -> bool:
    """Tell, without reading a row, whether Spark may be needed to publish a projection anew."""
    staged = projection.stage
    if staged is not None:
        present = log.read_snapshot(lake.store, staged)
        if present is not None and (
            present.overlay.constraints or not choice.takes(reading(present))
        ):
            return True
    sql = rows_query(projection) if staged is None else projection.sql
    if staged is None and (plain := wanted(lake, sql)) is not None:
        return not choice.takes(plain.work())
    if choice.name == SPARK or not extras.installed(*LIBRARIES):
        return True
    from singerlake.ops.publish.simple_sql import SimpleSql

    try:
        with SimpleSql(lake, sql, choice) as simple:
            return simple.may_give_up
    except (OutsideError, SingerlakeError):
        return True  # whoever reads it says why
