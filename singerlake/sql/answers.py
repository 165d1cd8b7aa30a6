"""Answers a query on the engine that its statement and its tables allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from singerlake import extras
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.errors import UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.rows.blocks.misfits import FAIL, check_choice

if TYPE_CHECKING:
    from singerlake.sql.local.query import LocalQueryResult
    from singerlake.sql.result import QueryResult

LIBRARIES = ("duckdb", "sqlglot")
"""What the extra ``sql`` brings."""


def answer(
    lake: Lake,
    sql: str,
    choice: EngineChoice,
    *,
    row_metadata: bool = False,
    if_transaction: Mapping[str, int] | None = None,
    on_type_mismatch: str = FAIL,
    lake_version: LakeVersion | None = None,
    heads: Mapping[TableName, int] | None = None,
) -> LocalQueryResult | QueryResult:
    """Query a lake: on DuckDB in this process where it answers as Spark does, on Spark otherwise.

    Args:
        lake: The lake.
        sql: One SELECT.
        choice: What may run it.
        row_metadata: As for Spark's ``query``.
        if_transaction: As for Spark's ``query``.
        on_type_mismatch: As for Spark's ``query``.
        lake_version: As for Spark's ``query``.
        heads: As for Spark's ``query``.

    Raises:
        UsageError: Only this process may be used, and the statement is outside of its set.
        RuntimeMissingError: What answers the statement is not installed.
        SingerlakeError: As Spark's ``query`` raises it.
    """
    check_choice(on_type_mismatch)
    purpose, otherwise = "a query", ""
    if choice.name != SPARK:
        if extras.installed(*LIBRARIES):
            from singerlake.sql.local.outside import OutsideError
            from singerlake.sql.local.query import query as answered_here

            try:
                return answered_here(
                    lake,
                    sql,
                    choice,
                    row_metadata=row_metadata,
                    if_transaction=if_transaction,
                    on_type_mismatch=on_type_mismatch,
                    lake_version=lake_version,
                    heads=heads,
                )
            except OutsideError as error:
                purpose = f"a query with {error.construct}"
        else:
            otherwise = f"; simple queries need less: {extras.install_line('sqlglot')}"
        if choice.name == LOCAL:
            for library in LIBRARIES:
                extras.require(library, "a query with the engine local", extra="sql")
            raise UsageError(f"{purpose} needs Spark: use the engine auto or spark")
    extras.require("pyspark", purpose, otherwise)
    choice.need_spark(purpose, purpose)  # Java starts while the modules are imported
    from singerlake.sql.queries.query import query

    return query(
        choice.session(purpose),
        lake,
        sql,
        row_metadata=row_metadata,
        if_transaction=if_transaction,
        on_type_mismatch=on_type_mismatch,
        lake_version=lake_version,
        heads=heads,
    )
