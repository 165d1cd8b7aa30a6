"""SQL over a lake's tables and their versions: SELECT only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import (
    ConflictError,
    InvalidQueryError,
    NotFoundError,
    SingerlakeError,
)
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.spark import rows_asked, sql_plan, sql_text, weight
from singerlake.spark.answer import Answer, Source
from singerlake.spark.failures import condition, first_line, plain_errors
from singerlake.spark.frames import FAIL, renamed, with_provenance
from singerlake.spark.sql_plan import Relation
from singerlake.transactions.lease import ReaderLease
from singerlake.transactions.snapshot import Snapshot

__all__ = ["Answer", "Source", "query"]
SHOWN = 20
_MISSING_COLUMN = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND")


def query(
    spark: SparkSession,
    lake: Lake,
    sql: str,
    *,
    provenance: bool = False,
    etags: Mapping[str, int] | None = None,
    misfits: str = FAIL,
) -> Answer:
    """Ask a lake.

    Tables are written ``tap.stream`` or ``tap.stream.2``, a dash as an underscore or the
    part in backticks; a version also as ``VERSION AS OF 2`` or ``'label'``, or the state at
    a time as ``TIMESTAMP AS OF '2026-11-20T12:00:00Z'``, or at a transaction as
    ``VERSION AS OF '@17'``. Nothing is computed until rows are taken from the answer, except
    indexes that are not there yet.

    Args:
        spark: The session. What the query needs is kept in one of its own, so that queries
            do not see each other.
        lake: The lake.
        sql: One SELECT.
        provenance: Give every table two more columns, ``_row_id`` and ``_row_version``.
        etags: For tables read at their head, by ``tap.stream``: the transaction they must
            still be at. The name ``*`` stands for every table.
        misfits: What becomes of values that do not fit their columns: with ``fail`` it is an
            error to read one, ``null`` reads it as null, and ``text`` makes text of its
            column. The answer's sources say how many there were.

    Raises:
        ConflictError: A table has moved on from its etag.
        InvalidQueryError: It is no SELECT, does not parse, or names no column of the tables.
        NotFoundError: It names a table or a version that is not there.
        DamagedError: A table's data cannot be read.
    """
    rows_asked.check_choice(misfits)
    with plain_errors():
        own, text, asked = _parsed(spark, sql)
    views = _Views(
        spark, own, lake, provenance=provenance, misfits=misfits, etags=dict(etags or {})
    )
    try:
        with plain_errors():
            frame = _planned(own, text, asked, views)
    except BaseException:
        views.release()
        raise
    return Answer(frame, list(views.sources.values()), views.leases)


def _parsed(spark: SparkSession, sql: str) -> tuple[SparkSession, str, list[Relation]]:
    """A session of the query's own, the query as Spark takes it, and what it reads."""
    own = spark.newSession()
    # The session's catalog knows no file formats to read from a path, whatever the name.
    own.conf.set("spark.sql.runSQLOnFiles", "false")
    # Else ${env:AWS_SECRET_ACCESS_KEY} in a query is what the environment says.
    own.conf.set("spark.sql.variable.substitute", "false")
    own.conf.set("spark.sql.caseSensitive", "true")
    text = sql_text.quote_versions(sql)
    return own, text, sql_plan.relations(own, text)


def _planned(own: SparkSession, text: str, asked: list[Relation], views: _Views) -> DataFrame:
    try:
        frame = own.sql(sql_text.edit(text, _changes(text, asked, views)))
        sql_plan.check_analyzed(frame._jdf.queryExecution().analyzed())
        return weight.limited(frame)
    except AnalysisException as error:
        raise _explained(error, views) from None


@dataclass
class _Views:
    """The lake's tables as views of the query's session, made as they turn up."""

    spark: SparkSession
    own: SparkSession
    lake: Lake
    provenance: bool = False
    misfits: str = FAIL
    replaced: dict[tuple[TableName, int], Mapping[str, int]] = field(default_factory=dict)
    etags: dict[str, int] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: f"singerlake_{uuid4().hex[:8]}")
    names: dict[tuple[TableName, int], str] = field(default_factory=dict)
    sources: dict[tuple[TableName, int, int | None], Source] = field(default_factory=dict)
    columns: dict[TableName, list[str]] = field(default_factory=dict)
    leases: list[ReaderLease] = field(default_factory=list)
    _heads: dict[TableName, Snapshot] = field(default_factory=dict)
    _known: list[TableName] | None = None

    @property
    def known(self) -> list[TableName]:
        """The lake's tables, listed once a query."""
        if self._known is None:
            self._known = self.lake.tables()
        return self._known

    def view(self, relation: Relation) -> str:
        """The name of the view that holds what a relation means."""
        name, version = find(relation.parts, self.known)
        if version is not None and (relation.version or relation.timestamp):
            raise InvalidQueryError(f"{'.'.join(relation.parts)} names two versions at once")
        head = self._head(name)
        number = None
        if relation.timestamp is not None:
            snapshot = head.at_time(relation.timestamp)
        elif (wanted := version or relation.version) is not None:
            frozen, snapshot = self._named(head, wanted)
            number = frozen.number if frozen is not None else None
        else:
            snapshot = head
            self._check_etag(head)
        key = (name, snapshot.head)
        if key not in self.names:
            self.names[key] = self._make(name, snapshot)
        source = Source(name, number, snapshot.head, self.replaced[key])
        self.sources[(name, snapshot.head, number)] = source
        return self.names[key]

    def _named(self, head: Snapshot, wanted: str) -> tuple[FrozenVersion | None, Snapshot]:
        try:
            return head.named(wanted)
        except NotFoundError as error:
            other = TableName(head.table.tap, f"{head.table.stream}.{wanted}")
            if other not in self.known:
                raise
            hint = ".".join(map(sql_text.quote, (other.tap, other.stream)))
            raise NotFoundError(f"{error}; the stream of that name is written {hint}") from None

    def _head(self, name: TableName) -> Snapshot:
        """One snapshot a table and query, so that all its parts see the same."""
        if name not in self._heads:
            lease = self.lake.table(name).lease().acquire()
            self.leases.append(lease)
            self._heads[name] = lease.snapshot
        return self._heads[name]

    def release(self) -> None:
        """Give up the leases, where there will be no answer."""
        for lease in self.leases:
            lease.release()

    def _check_etag(self, head: Snapshot) -> None:
        wanted = self.etags.get(str(head.table), self.etags.get("*"))
        if wanted is not None and wanted != head.head:
            raise ConflictError(
                f"{head.table} is at transaction {head.head}, not {wanted} any more: "
                "ask anew, without the etag"
            )

    def _make(self, name: TableName, snapshot: Snapshot) -> str:
        table = self.lake.table(name)
        with plain_errors():
            asked = rows_asked.rows(self.spark, self.own, table, snapshot, self.misfits)
            named = with_provenance if self.provenance else renamed
            frame = named(asked.frame, asked.shape)
        self.replaced[(name, snapshot.head)] = asked.misfits
        self.columns[name] = list(frame.columns)
        view = f"{self.mark}_{len(self.names) + 1}"
        frame.createOrReplaceTempView(view)
        return view


def find(parts: tuple[str, ...], known: list[TableName]) -> tuple[TableName, str | None]:
    """The table, and the version if any, that a name in SQL means.

    A part matches as it is, or with each character that SQL cannot have in a bare name
    written as an underscore, in any case.

    Raises:
        NotFoundError: The lake has no such table.
        InvalidQueryError: It could mean several.
    """
    if len(parts) > 1:
        tap, rest = parts[0], list(parts[1:])
        shorter = _match(tap, ".".join(rest[:-1]), known) if len(rest) > 1 else None
        whole = _match(tap, ".".join(rest), known)
        if shorter and (rest[-1].isdecimal() or rest[-1].startswith("@") or not whole):
            return shorter, rest[-1]
        if whole:
            return whole, None
    written = ".".join(parts)
    listed = ", ".join(str(name) for name in known[:SHOWN])
    more = f", and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    raise NotFoundError(
        f"the lake has no table {written}: "
        + (f"it has {listed}{more}" if known else "it is empty")
        + ("; write a table as tap.stream" if len(parts) == 1 else "")
    )


def _match(tap: str, stream: str, known: list[TableName]) -> TableName | None:
    exact = TableName(tap, stream)
    if exact in known:
        return exact
    like = (_bare(tap), _bare(stream))
    near = [name for name in known if (_bare(name.tap), _bare(name.stream)) == like]
    if len(near) > 1:
        raise InvalidQueryError(
            f"{exact} could mean {' or '.join(map(str, near))}: write the one meant in backticks"
        )
    return near[0] if near else None


def _bare(name: str) -> str:
    return re.sub(r"\W", "_", name).casefold()


def _changes(text: str, asked: list[Relation], views: _Views) -> list[tuple[int, int, str]]:
    """What to replace in the text so that Spark finds the views."""
    found = sql_text.tokens(text)
    places = {token.start: place for place, token in enumerate(found)}
    changes: list[tuple[int, int, str]] = []
    prefixes: list[tuple[str, ...]] = []
    for relation in asked:
        if len(relation.parts) == 1:
            continue  # the name of a WITH; if not, Spark will not find it
        place = places.get(relation.start, -1)
        parts, used = sql_text.name_at(found, place) if place >= 0 else ([], 0)
        if tuple(parts) != relation.parts:
            raise InvalidQueryError("a table's name must be spelled out in the query")
        end = place + used
        if relation.version is not None or relation.timestamp is not None:
            end += sql_text.time_travel_end(found, end)
        name = sql_text.quote(views.view(relation))
        if not relation.aliased and _may_have_alias(found, place, end):
            own = _own_parts(relation.parts, views)
            name += f" AS {sql_text.quote(own[-1])}"
            prefixes.append(own)
        changes.append((relation.start, found[end - 1].end, name))
    return changes + _qualifiers(found, changes, prefixes)


def _may_have_alias(found: list[sql_text.Token], place: int, end: int) -> bool:
    """Not in ``TABLE x``, nor before ``x TABLESAMPLE (…)``, which an alias may only follow."""
    before = found[place - 1].text.upper() if place else ""
    after = found[end].text.upper() if end < len(found) else ""
    return before != "TABLE" and after != "TABLESAMPLE"


def _own_parts(parts: tuple[str, ...], views: _Views) -> tuple[str, ...]:
    """A table's name without its version."""
    _, version = find(parts, views.known)
    return parts if version is None else parts[:-1]


def _qualifiers(
    found: list[sql_text.Token],
    taken: list[tuple[int, int, str]],
    prefixes: list[tuple[str, ...]],
) -> list[tuple[int, int, str]]:
    """Shorten ``tap.stream.column`` to ``stream.column``: a view's name has one part."""
    spans = [(start, end) for start, end, _ in taken]
    changes = []
    place = 0
    while place < len(found):
        parts, used = sql_text.name_at(found, place)
        first = found[place]
        begin, place = place, place + max(1, used)
        if not parts or any(start <= first.start < end for start, end in spans):
            continue
        starred = place < len(found) and found[place].text == "."
        for prefix in prefixes:
            size = len(prefix)
            longer = len(parts) > size or (len(parts) == size and starred)
            if longer and [p.casefold() for p in parts[:size]] == [p.casefold() for p in prefix]:
                last = found[begin + 2 * size - 2]
                changes.append((first.start, last.end, sql_text.quote(prefix[-1])))
                break
    return changes


def _explained(error: AnalysisException, views: _Views) -> SingerlakeError:
    """Spark's complaint about names, with the names there are."""
    what = condition(error)
    parameters = error.getMessageParameters() or {}
    if what.startswith(_MISSING_COLUMN):
        name = parameters.get("objectName") or parameters.get("fieldName") or "?"
        there = "; ".join(
            f"{table} has {', '.join(names)}" for table, names in views.columns.items()
        )
        return InvalidQueryError(f"there is no column {name}: {there or 'no table is read'}")
    if what.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = str(parameters.get("relationName", "?")).replace("`", "")
        try:
            find(tuple(name.split(".")), views.known)
        except SingerlakeError as explained:
            return explained
    said = first_line(error)
    for (table, _), view in views.names.items():
        said = said.replace(f"`{view}`", str(table)).replace(view, str(table))
    return InvalidQueryError(said)
