"""DuckDB, locked: it reads the rows that it is handed, and nothing else.

It has no file, no network, no extension and no setting, one thread and an end to its memory. The
statement that it gets was written by ``statement.py``; the locks hold if that is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from singerlake.errors import SingerlakeError
from singerlake.rows.batches.steps import Batches
from singerlake.rows.columns.weights import ROW_BYTES, too_heavy, weights
from singerlake.sql.local.expressions import BEYOND
from singerlake.sql.local.outside import OutsideError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 1 << 16
"""Rows of an answer that are fetched at once."""
_GIB = 1 << 30
SETTINGS = (
    "temp_directory = ''",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""In this order: what is locked can be set no more."""
_SCAN = re.compile(r'"name":\s*"\w*ARROW_SCAN\s*"')
_DIFFERENT = (
    "a sum that may exceed what is added exactly, -0.0 as the smallest or largest value, a number "
    "that overflows, or upper and lower case beyond ASCII"
)
Opened = Callable[[], tuple[pa.Schema, Batches]]
"""Begins to read the rows of a relation."""


def answered(
    sql: str, texts: Sequence[str], schema: pa.Schema, relations: Sequence[Opened]
) -> Batches:
    """Run a statement, and return its rows in the types that Spark gives them.

    Args:
        sql: The statement in DuckDB's SQL.
        texts: Its parameters.
        schema: What it gives, as Spark has it.
        relations: Its tables, in order.

    Raises:
        OutsideError: DuckDB cannot answer it as Spark does, or needs more memory than it may have.
        InvalidQueryError: A row weighs more than one may.
        SingerlakeError: A table's rows cannot be read.
    """
    import duckdb

    failures: list[SingerlakeError] = []
    connection = locked()
    try:
        for number, opened in enumerate(relations):
            own, batches = opened()
            reader = pa.RecordBatchReader.from_batches(own, _noting(batches, failures))
            connection.register(f"t{number}", reader)
        with _explained(duckdb.Error, failures):
            _check_scans(connection, sql, texts, len(relations))
            asked = connection.sql(sql, params=list(texts) or None)
            rows = asked.to_arrow_reader(BATCH_ROWS)
        while True:
            with _explained(duckdb.Error, failures):
                batch = next(rows, None)
            if batch is None:
                return
            yield _as_spark(batch, schema)
    finally:
        connection.close()


def locked() -> DuckDBPyConnection:
    """Return a database in memory that has no access to files or the network."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": memory()})
    with suppress(duckdb.Error):  # a release without it
        connection.execute("SET disabled_optimizers = 'window_self_join'")
    for setting in SETTINGS:
        connection.execute(f"SET {setting}")
    return connection


def _check_scans(
    connection: DuckDBPyConnection, sql: str, texts: Sequence[str], relations: int
) -> None:
    """Refuse a plan that reads a relation twice: the second time it would have no rows.

    An optimizer of DuckDB 1.5 does so, to join a window with its own groups.
    """
    plan = connection.execute(f"EXPLAIN (FORMAT json) {sql}", list(texts) or None).fetchall()
    if len(_SCAN.findall(plan[0][1])) > relations:
        raise OutsideError("a table that DuckDB would read twice")


def memory() -> str:
    """Return a third of the machine's memory, from 1 to 8 GiB, as Java gets it."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 4 * _GIB
    return f"{min(8 * _GIB, max(_GIB, total // 3)) >> 20}MiB"


def _noting(batches: Batches, failures: list[SingerlakeError]) -> Iterator[pa.RecordBatch]:
    """Keep our own errors, of which DuckDB passes on no more than the text."""
    try:
        yield from batches
    except SingerlakeError as error:
        failures.append(error)
        raise


@contextmanager
def _explained(failure: type[Exception], failures: list[SingerlakeError]) -> Iterator[None]:
    try:
        yield
    except (failure, OSError, pa.ArrowException) as error:
        if failures:
            raise failures[0] from None
        if BEYOND in str(error) or "Out of Range" in str(error):
            raise OutsideError(_DIFFERENT) from None
        raise OutsideError(
            f"SQL that DuckDB rejects ({str(error).strip().splitlines()[0]})"
        ) from None


def _as_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch in Spark's types, under the answer's names.

    Raises:
        InvalidQueryError: A row of it weighs more than one may.
    """
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_timestamp(field.type):
            column = column.view(field.type)  # noqa: PLW2901  # what a clock in UTC shows
        columns.append(column if column.type == field.type else column.cast(field.type))
    if batch.nbytes > ROW_BYTES:
        heaviest = int(np.sum([weights(column) for column in columns], axis=0).max(initial=0))
        if heaviest > ROW_BYTES:
            raise too_heavy(heaviest)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
