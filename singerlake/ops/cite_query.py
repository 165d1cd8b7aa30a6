"""Cite the result of a query over versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pyarrow as pa

from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName, TableRef
from singerlake.format.sql_tokens import tokens
from singerlake.format.types import Columns, columns_of
from singerlake.lake import Lake
from singerlake.rows.input.arrow.cells import cells_of
from singerlake.rows.input.arrow.schemas import spec_of
from singerlake.rows.input.values.inference import nullable
from singerlake.rows.state.fingerprint import Content, Proof, Sums
from singerlake.site.citation import Cited, bibtex_key
from singerlake.site.lists import lake_title
from singerlake.sql.answers import answer
from singerlake.sql.tables import Source


def cite_query(
    lake: Lake, sql: str, choice: EngineChoice | None = None
) -> tuple[Cited, list[TableRef]]:
    """Run a query over versions, and return the citation of its result, and those versions.

    Args:
        sql: One SELECT that reads frozen versions only.
        choice: The engines that may run it.

    Raises:
        UsageError: It reads a head, a transaction or a pointer, or no table; or a column has no
            place in a lake, so that its values have no fingerprint; or its rows may differ from
            run to run.
        InvalidQueryError: It is not a SELECT.
        NotFoundError: It names a table or a version that is not there.
    """
    with answer(lake, sql, choice or EngineChoice()) as result:
        read = [_version_of(source) for source in result.sources]
        if not read:
            raise UsageError("the query reads no table: there is nothing to cite")
        if (part := result.unrepeatable) is not None:
            raise UsageError(
                f"the query has {part}: run again, it may give other rows, so it cannot be cited"
            )
        content = _content(result.batches())
    title = normalized(sql)
    fingerprint = content.fingerprint
    cited = Cited(
        title=title,
        creator=_owner(lake, [ref.table for ref in read]),
        publisher=lake_title(lake.store.uri),
        rows=content.rows,
        time=times.iso(times.now()),
        fingerprint=fingerprint,
        key=bibtex_key(f"query-{fingerprint.partition(':')[2][:12]}"),
        sql=title,
        sources=[str(ref) for ref in read],
    )
    return cited, read


def normalized(sql: str) -> str:
    """Return a statement in one line, without comments and the semicolon at its end."""
    found = tokens(sql)
    while found and found[-1].text == ";":
        found.pop()
    gaps = [" " if after.start > before.end else "" for before, after in pairwise(found)]
    return "".join(one.text + gap for one, gap in zip(found, [*gaps, ""], strict=False))


def _version_of(source: Source) -> TableRef:
    if source.version is None:
        raise UsageError(
            f"the query reads {source.table} at transaction {source.transaction}, whose snapshot "
            f"may expire: freeze it (singerlake freeze {source.table}), and name the version in "
            "the query"
        )
    if source.pointer is not None:
        raise UsageError(
            f"the query reads {source.table}{source.pointer}, a pointer, which may move: name "
            f"{source.table}.{source.version} in the query"
        )
    return TableRef(source.table, str(source.version))


def _owner(lake: Lake, tables: Sequence[TableName]) -> str:
    """Return who answers for all tables; nobody where that is not one."""
    said = lake.annotations()
    owners = {said.table(one).owner or said.tap(one.tap).owner or said.owner for one in tables}
    return (owners.pop() or "") if len(owners) == 1 else ""


def _content(batches: Iterable[pa.RecordBatch]) -> Content:
    """Count rows, and compute the fingerprint that a version of the same rows has."""
    sums = Sums((Proof.VALUES,))
    for batch in batches:
        columns = _columns(batch.schema)
        cells = []
        for array, (name, type_) in zip(batch.columns, columns, strict=True):
            taken, misfits = cells_of(array, type_)
            if misfits:
                _, value, why = misfits[0]
                raise UsageError(
                    f"the column {name} has {value}, which {why}: its values have no fingerprint"
                )
            cells.append(taken)
        names = [name for name, _ in columns]
        sums.take(pa.RecordBatch.from_arrays(cells, names), columns)
    return sums.content()


def _columns(schema: pa.Schema) -> Columns:
    names = schema.names
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two columns are named {twice[0]!r}: give them names with AS")
    properties = {field.name: nullable(spec_of(field.type, field.name)) for field in schema}
    return columns_of(SchemaEntry({"type": "object", "properties": properties}))
