"""The choice of the engine that answers a query, by its statement and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

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

H = TypeVar("H")
S = TypeVar("S")
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
        sql: One SELECT.
        choice: The engines that may run it.
        row_metadata: As for Spark's ``query``.
        if_transaction: As for Spark's ``query``.
        on_type_mismatch: As for Spark's ``query``.
        lake_version: As for Spark's ``query``.
        heads: As for Spark's ``query``.

    Raises:
        UsageError: Only this process may be used, and the statement is outside of its set.
        RuntimeMissingError: The engine that answers the statement is not installed.
        SingerlakeError: As Spark's ``query`` raises it.
    """
    check_choice(on_type_mismatch)
    asked: dict[str, Any] = {
        "row_metadata": row_metadata,
        "if_transaction": if_transaction,
        "on_type_mismatch": on_type_mismatch,
        "lake_version": lake_version,
        "heads": heads,
    }

    def here() -> LocalQueryResult:
        from singerlake.sql.local.query import query

        return query(lake, sql, choice, **asked)

    def on_spark(purpose: str) -> QueryResult:
        from singerlake.sql.queries.query import query

        return query(choice.session(purpose), lake, sql, **asked)

    return first_here(choice, "a query", here, on_spark)


def first_here(
    choice: EngineChoice, purpose: str, here: Callable[[], H], on_spark: Callable[[str], S]
) -> H | S:
    """Ask DuckDB where it answers as Spark does, and Spark otherwise.

    Args:
        choice: The engines that may be asked.
        purpose: What is asked, as a noun with its article.
        here: Asks DuckDB; raises ``OutsideError`` if it does not answer as Spark does.
        on_spark: Asks Spark; gets the purpose, with what is not in DuckDB's set.

    Raises:
        UsageError: Only this process may be used, and what is asked is outside of the set.
        RuntimeMissingError: The engine that answers is not installed.
    """
    wanted, otherwise = purpose, ""
    if choice.name != SPARK:
        if extras.installed(*LIBRARIES):
            from singerlake.sql.local.outside import OutsideError

            try:
                return here()
            except OutsideError as error:
                wanted = f"{purpose} with {error.construct}"
        else:
            otherwise = f"; simple SQL needs less: {extras.install_line('sqlglot')}"
        if choice.name == LOCAL:
            for library in LIBRARIES:
                extras.require(library, f"{purpose} with the engine local", extra="sql")
            raise UsageError(f"{wanted} needs Spark: use the engine auto or spark")
    extras.require("pyspark", wanted, otherwise)
    choice.need_spark(wanted, wanted)  # Java starts while the modules are imported
    return on_spark(wanted)
