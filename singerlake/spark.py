"""A lake's tables as Spark frames, for notebooks and for jobs of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from singerlake.lake import Lake, Table
    from singerlake.ops.diff.frame import FrameDiff

__all__ = ["diff", "plain_errors", "read_table", "register"]


def read_table(
    name: str,
    *,
    lake: str | Lake | None = None,
    version: int | str | None = None,
    spark: SparkSession | None = None,
    row_metadata: bool = False,
    on_type_mismatch: str = "fail",
    files: str = "reference",
    file_bytes: int = 64 << 20,
) -> DataFrame:
    """Read a table's rows as a Spark frame.

    The frame stays at the transaction it was made at, whatever is written later. While it is
    held, no vacuum deletes what it reads; frames made from it do not hold it, so keep it as
    long as they are used. The first read of a state makes an index of it in the lake, as the
    ``query`` command does.

    Args:
        name: ``tap.stream``, or ``tap.stream.2`` for version 2.
        lake: The lake, or where it lies: a folder or ``s3://bucket/prefix``. The environment's
            SINGERLAKE_LAKE by default, else ``./lake``.
        version: A version's number or label, or ``"@17"`` for the state at transaction 17; the
            head by default.
        spark: The session to read with; the running one by default, or a new one.
        row_metadata: Give the table three more columns: ``_row_id``; ``_row_version``, the number
            of the row's block; and ``_transaction``, which brought the block.
        on_type_mismatch: What becomes of values that do not fit their columns: with ``fail`` it is
            an error to read one, ``null`` reads it as null, and ``text`` makes text of its column.
            How many there are is logged as a warning.
        files: ``binary`` gives the table one more column for each that is of format
            ``singer.file``, or a list of such: ``photo_content`` behind ``photo``, with the
            file's bytes, checked against their hash; null where a row has no file in the lake.
            Executors read them, and only for who asks for that column, of the rows that
            remain: ``read_table(…, files="binary").where("id < 100").select("photo_content")``
            reads a hundred.
        file_bytes: The most that such a file may have, up to 2**30; it is an error to read a
            larger one.

    Returns:
        A frame whose columns are named exactly as the schema's properties.

    Raises:
        NotFoundError: There is no such lake, table or version.
        UsageError: Name and ``version`` name a version each; or ``files="binary"`` of a table
            without files.
        DamagedError: A block that is needed cannot be read.
    """
    # Late, so that this module can be imported without pyspark.
    from singerlake.sql.queries import reading

    return reading.read_table(
        name,
        lake=lake,
        version=version,
        spark=spark,
        row_metadata=row_metadata,
        on_type_mismatch=on_type_mismatch,
        files=files,
        file_bytes=file_bytes,
    )


def diff(
    spark: SparkSession,
    table: Table,
    before: str,
    after: str | None = None,
    *,
    on_type_mismatch: str = "fail",
) -> FrameDiff:
    """Find what differs between two states of a table.

    Both are read with the columns, the types and the key of the second. A row that nobody wrote in
    between is unchanged, whatever became of the schema. Without a key, rows are known by where
    they lie and by their records: none is ever changed, only removed and added.

    ::

        with diff(spark, lake.table("tap-shop.orders"), "monday") as found:
            print(found.counts())
            found.frame.where("change = 'changed'").select("key.id", "after.total").show()

    Args:
        spark: The session.
        table: The table.
        before: A version's number or label, or ``"@17"`` for the state at transaction 17.
        after: The same; the head by default.
        on_type_mismatch: What becomes of values that do not fit their columns, in rows that differ:
            with ``fail`` it is an error to read one, ``null`` reads it as null, and ``text`` makes
            text of its column.

    Returns:
        How the schemas differ (``compared.schema``), ``counts()``, and the rows as a frame. While
        it is held, no vacuum deletes what it reads.

    Raises:
        NotFoundError: There is no such version or transaction, or its state was given up.
        UsageError: The table's log is lost, or the first state lacks a column of the second's key.
        DamagedError: A block that is needed cannot be read, or a key does not fit.
    """
    from singerlake.ops.diff import frame as difference

    return difference.diff(spark, table, before, after, on_type_mismatch=on_type_mismatch)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what Spark raises inside of it into Singerlake's errors, without Java's stack.

    A frame is read when somebody asks for its rows, and then Spark raises an error of its own
    (``PythonException`` and others) for whatever an executor met: a file that is larger than
    ``file_bytes``, a block that is damaged, a value that does not fit.

    ::

        with plain_errors():
            read_table("tap-shop.products", files="binary").write.parquet("photos.parquet")

    Raises:
        SingerlakeError: What an executor raised, in its own class where it is one of ours.
    """
    from singerlake.engine.spark.jvm import failures

    with failures.plain_errors():
        yield


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("singerlake")`` known to a session that did not find it by itself.

    Spark finds it if Singerlake is installed in the Python that Java starts: that of
    ``PYSPARK_PYTHON``, or ``python3`` of the activated environment.

    It reads materialized snapshots: every frozen version, and every snapshot that was queried
    once; that of a small table is made. Options are

    - ``lake``: where the lake lies; by default what SINGERLAKE_LAKE says.
    - one of ``version`` (a number, or a label), ``label``, ``transaction`` and ``time``; by
      default the head.
    - ``columns``: those wanted, as ``id,total``; by default all. Spark does not tell a source which
      ones a query uses.
    - ``on_type_mismatch``: ``fail`` or ``null``, as for :func:`read_table`.

    With ``spark.sql.python.filterPushdown.enabled``, executors drop rows for which conditions do
    not hold (``=``, ``<``, ``in``, ``is null`` and the like, on all columns but doubles, times and
    nested ones) before these go to Java, and do not read row groups that cannot match. Executors
    must have Singerlake installed.

    ::

        spark.read.format("singerlake").option("lake", uri).load("tap-shop.orders.1")

    With PySpark 4.2 or later, ``spark.readStream`` gives the changes of a table, each transaction
    once, with the columns ``_change_type``, ``_transaction`` and ``_sequence``. Options are

    - ``change_feed``: ``true``.
    - ``since``: the state after which it begins (a version's number or label, or ``@17``); by
      default it begins with all rows.
    - ``max_transactions_per_trigger`` and ``max_rows_per_trigger``: the size of a batch, which has
      whole transactions, and at least one.

    ::

        spark.readStream.format("singerlake").option("change_feed", "true").load("tap-shop.orders")

    Args:
        spark: The session.
    """
    from singerlake.api.spark_source import SingerlakeSource

    spark.dataSource.register(SingerlakeSource)
