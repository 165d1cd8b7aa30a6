"""A table as a Spark frame, for notebooks and for jobs of one's own."""

from __future__ import annotations

import logging
import weakref
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.session import given, session
from singerlake.errors import UsageError
from singerlake.files.content_column import MOST_BYTES
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.misfits import AS_TEXT, FAIL, check_choice, replaced_words
from singerlake.snapshot.selection import Read
from singerlake.sql.queries import file_contents
from singerlake.sql.queries.file_contents import BINARY, REFERENCE, with_contents
from singerlake.sql.result import QueryResult
from singerlake.sql.state.frames import with_provenance
from singerlake.sql.state.from_blocks import state_rows
from singerlake.sql.state.requested_rows import rows

logger = logging.getLogger(__name__)


def read_table(
    name: str,
    *,
    lake: str | Lake | None = None,
    version: int | str | None = None,
    spark: SparkSession | None = None,
    row_metadata: bool = False,
    on_type_mismatch: str = FAIL,
    files: str = REFERENCE,
    file_bytes: int = MOST_BYTES,
) -> DataFrame:
    """Read a table as :func:`singerlake.spark.read_table` specifies."""
    if not isinstance(lake, Lake):
        lake = Lake.open(lake)
    table, ref = lake.find(name)
    if version is not None and ref.version is not None:
        raise UsageError(f"{name} names a version, and version={version!r} another: give one")
    wanted = ref.version if version is None else str(version)
    return read_state(
        table,
        wanted,
        spark=spark,
        row_metadata=row_metadata,
        misfits=on_type_mismatch,
        files=files,
        file_bytes=file_bytes,
    )


def read_state(
    table: Table,
    wanted: str | None,
    *,
    spark: SparkSession | None = None,
    row_metadata: bool = False,
    misfits: str = FAIL,
    files: str = REFERENCE,
    file_bytes: int = MOST_BYTES,
) -> DataFrame:
    """Read a table's rows at a version's number or label, or at ``@17``; at the head for None.

    The other arguments are those of :func:`singerlake.spark.read_table`, where ``misfits`` is
    ``on_type_mismatch``.
    """
    check_choice(misfits)
    file_contents.check_choice(files, file_bytes)
    if spark is not None and not isinstance(spark, SparkSession):
        plain = not row_metadata and files == REFERENCE and misfits != AS_TEXT
        return _by_the_source(spark, table, wanted, misfits, plain=plain)
    spark = given(spark)
    lease = table.lease().acquire()
    try:
        snapshot = lease.snapshot if wanted is None else lease.snapshot.named(wanted)[1]
        with plain_errors():
            requested = rows(spark, spark, table, snapshot, misfits, named=not row_metadata)
            frame = requested.frame
            if row_metadata:
                frame = with_provenance(frame, requested.shape, snapshot)
            if files == BINARY:
                frame = with_contents(frame, table, snapshot, file_bytes)
    except BaseException:
        lease.release()
        raise
    for message in replaced_words(snapshot.table, requested.misfits, misfits):
        logger.warning("%s", message)
    weakref.finalize(frame, lease.release)
    return frame


def _by_the_source(
    remote: Any, table: Table, wanted: str | None, misfits: str, *, plain: bool
) -> DataFrame:
    """Read over Spark Connect, whose sessions have no JVM: the server reads by the data source.

    Raises:
        UsageError: The source cannot give what is asked for.
    """
    if not plain:
        raise UsageError(
            "over Spark Connect, read_table knows no row_metadata, no files='binary' and no "
            "on_type_mismatch='text': read without them, or in a session that is not remote"
        )
    number = table.snapshot().number
    state = {"transaction": str(number)} if wanted is None else {"version": wanted}
    if wanted is not None and wanted.startswith("@"):
        state = {"transaction": wanted[1:]}
    options = {"lake": table.store.uri, "on_type_mismatch": misfits, **state}
    frame: DataFrame = remote.read.format("singerlake").options(**options).load(str(table.name))
    return frame


def arrow_rows(table: Table, snapshot: TableState, misfits: str) -> Read:
    """Return a reader of the rows of a state that can have no index.

    It raises the error where a value that is read does not fit.

    Args:
        table: The table, under a lease.
        misfits: The treatment of values that do not fit their columns.
    """
    spark = session()
    with plain_errors():
        frame = state_rows(spark, table, snapshot, misfits)
    return lambda columns: QueryResult(frame.select(*columns), []).batches()
