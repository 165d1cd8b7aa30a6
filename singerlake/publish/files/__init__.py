"""Files of rows in the formats that everybody reads; Arrow batches in, bytes out. No pyspark."""

from __future__ import annotations

from singerlake.publish.files.base import FileFormat, FileWriter, Layout
from singerlake.publish.projection import Format

__all__ = ["FileFormat", "FileWriter", "Layout", "file_format"]


def file_format(format: Format) -> FileFormat:  # noqa: A002  # it is what it is
    """Give the way in which the files of a format are written.

    Iceberg and Delta are tables of Parquet files.
    """
    if format is Format.AVRO:
        from singerlake.publish.files.avro import Avro

        return Avro()
    if format in (Format.CSV, Format.TSV):
        from singerlake.publish.files.delimited import Delimited

        return Delimited(format)
    if format is Format.JSONL:
        from singerlake.publish.files.jsonl import JsonLines

        return JsonLines()
    from singerlake.publish.files.parquet import Parquet

    return Parquet()
