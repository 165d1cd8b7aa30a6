"""SQL over a lake's tables and their versions: SELECT only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.jvm.failures import condition, first_line, plain_errors
from singerlake.engine.spark.jvm.settings import EXACT_DECIMALS
from singerlake.errors import InvalidQueryError, SingerlakeError
from singerlake.format import sql_tokens
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.misfits import FAIL, check_choice
from singerlake.sql import plan, row_weight
from singerlake.sql.column_lineage import Origins
from singerlake.sql.result import QueryResult
from singerlake.sql.state import requested_rows
from singerlake.sql.state.frames import with_provenance
from singerlake.sql.table_names import with_views
from singerlake.sql.tables import Relation, Tables, columns_offered

_MISSING_COLUMN = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND")


def query(
    spark: SparkSession,
    lake: Lake,
    sql: str,
    *,
    row_metadata: bool = False,
    if_transaction: Mapping[str, int] | None = None,
    on_type_mismatch: str = FAIL,
    heads: Mapping[TableName, int] | None = None,
    lake_version: LakeVersion | None = None,
) -> QueryResult:
    """Query a lake.

    Tables are written ``tap.stream`` or ``tap.stream.2``, a dash as an underscore or the
    part in backticks; a version also as ``VERSION AS OF 2`` or ``'label'``, or the state at
    a time as ``TIMESTAMP AS OF '2026-11-20T12:00:00Z'``, or at a transaction as
    ``VERSION AS OF '@17'``. Nothing is computed until rows are taken from the result, except
    indexes that are not there yet.

    Args:
        spark: The session. What the query needs is kept in one of its own, so that queries
            do not see each other.
        sql: One SELECT.
        row_metadata: Give every table three more columns: ``_row_id``; ``_row_version``, the
            number of the row's block; and ``_transaction``, which brought the block.
        if_transaction: For tables read at their head, by ``tap.stream``: the transaction they must
            still be at. The name ``*`` stands for every table.
        on_type_mismatch: The treatment of values that do not fit their columns: with ``fail`` it is
            an error to read one, ``null`` reads it as null, and ``text`` makes text of its column.
            The result's sources say how many there were.
        heads: For tables read at their head: the transaction whose state is used instead.
        lake_version: Tables that are named without a version are read at that of this lake
            version.

    Raises:
        ConflictError: A table is no longer at its transaction in ``if_transaction``.
        InvalidQueryError: It is no SELECT, does not parse, or names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
        DamagedError: A table's data cannot be read.
    """
    check_choice(on_type_mismatch)
    with plain_errors():
        own, text, relations = parsed(spark, sql)
    views = Views(
        spark=spark,
        own=own,
        lake=lake,
        row_metadata=row_metadata,
        on_type_mismatch=on_type_mismatch,
        if_transaction=dict(if_transaction or {}),
        heads=dict(heads or {}),
        lake_version=lake_version,
    )
    try:
        with plain_errors():
            asked = planned(text, relations, views)
            frame = row_weight.limited(asked)
    except BaseException:
        views.release()
        raise
    tables = {name: views.states[key] for key, name in views.names.items()}
    origins = Origins(asked, tables)
    return QueryResult(frame, list(views.sources.values()), views.leases, origins)


def parsed(spark: SparkSession, sql: str) -> tuple[SparkSession, str, list[Relation]]:
    """Return a session for the query alone, the query as Spark takes it, and its relations.

    Raises:
        InvalidQueryError: It is no SELECT, or does not parse.
    """
    own = spark.newSession()
    # The session's catalog knows no file formats to read from a path, whatever the name.
    own.conf.set("spark.sql.runSQLOnFiles", "false")
    # Else ${env:AWS_SECRET_ACCESS_KEY} in a query is what the environment says.
    own.conf.set("spark.sql.variable.substitute", "false")
    own.conf.set("spark.sql.caseSensitive", "true")
    for name, value in EXACT_DECIMALS.items():
        own.conf.set(name, value)
    text = sql_tokens.quote_versions(sql)
    return own, text, plan.relations(own, text)


def planned(text: str, relations: list[Relation], views: Views) -> DataFrame:
    """Plan a query over views, without a limit on the weight of a row.

    Raises:
        InvalidQueryError: It calls what it may not, or names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
    """
    try:
        frame = views.own.sql(with_views(text, relations, views.known, views.view))
        plan.check_analyzed(frame._jdf.queryExecution().analyzed())
        return frame
    except AnalysisException as error:
        raise _explained(error, views) from None


@dataclass(kw_only=True)
class Views(Tables):
    """The lake's tables as views of the query's session, made as they turn up.

    Attributes:
        spark: The session that makes indexes.
        own: The session that the views are in, and their rows.
        row_metadata: Whether the tables have three more columns.
        on_type_mismatch: The treatment of values that do not fit.
        rows: Gives a table's rows under its columns' own names; None reads them.
    """

    spark: SparkSession
    own: SparkSession
    row_metadata: bool = False
    on_type_mismatch: str = FAIL
    rows: Callable[[TableName, TableState], DataFrame] | None = None
    replaced: dict[tuple[TableName, int], Mapping[str, int]] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: f"singerlake_{uuid4().hex[:8]}")
    names: dict[tuple[TableName, int], str] = field(default_factory=dict)
    columns: dict[TableName, list[str]] = field(default_factory=dict)

    def view(self, relation: Relation) -> str:
        """Return the name of the view that holds what a relation means."""
        name, snapshot, number = self.read(relation)
        key = (name, snapshot.number)
        if key not in self.names:
            self.names[key] = self._make(name, snapshot)
            self.states[key] = snapshot
        self.note(name, snapshot, number, self.replaced.get(key, {}))
        return self.names[key]

    def over(self, rows: Callable[[TableName, TableState], DataFrame]) -> Views:
        """Return views of the same tables with other rows, under the same leases."""
        mark = f"{self.mark}_{uuid4().hex[:8]}"
        return replace(self, rows=rows, names={}, replaced={}, mark=mark)

    def _make(self, name: TableName, snapshot: TableState) -> str:
        frame = self._read(name, snapshot) if self.rows is None else self.rows(name, snapshot)
        self.columns[name] = list(frame.columns)
        view = f"{self.mark}_{len(self.names) + 1}"
        frame.createOrReplaceTempView(view)
        return view

    def _read(self, name: TableName, snapshot: TableState) -> DataFrame:
        table = self.lake.table(name)
        with plain_errors():
            requested = requested_rows.rows(
                self.spark,
                self.own,
                table,
                snapshot,
                self.on_type_mismatch,
                named=not self.row_metadata,
            )
        self.replaced[(name, snapshot.number)] = requested.misfits
        if self.row_metadata:
            return with_provenance(requested.frame, requested.shape, snapshot)
        return requested.frame


def _explained(error: AnalysisException, views: Views) -> SingerlakeError:
    """Turn Spark's complaint about names into one that shows the names there are."""
    what = condition(error)
    parameters = error.getMessageParameters() or {}
    if what.startswith(_MISSING_COLUMN):
        name = parameters.get("objectName") or parameters.get("fieldName") or "?"
        return InvalidQueryError(
            f"there is no column {name}: {columns_offered(name, views.columns)}"
        )
    if what.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        parts, _ = sql_tokens.name_at(sql_tokens.tokens(str(parameters.get("relationName"))), 0)
        try:
            find(tuple(parts), views.known)
        except SingerlakeError as explained:
            return explained
    message = first_line(error)
    for (table, _), view in views.names.items():
        message = message.replace(f"`{view}`", str(table)).replace(view, str(table))
    return InvalidQueryError(message)
