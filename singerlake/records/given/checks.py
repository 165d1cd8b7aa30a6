"""What can be wrong with given files, seen without reading their rows: names, headers, footers."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import InputError
from singerlake.format.types import Columns
from singerlake.records.given import byte_sources
from singerlake.records.given.arrow.parquet_rows import ParquetSource
from singerlake.records.given.csv.dialect import Dialect
from singerlake.records.given.csv.file import CsvFile, open_csv
from singerlake.records.given.csv.rows import check_names, layouts
from singerlake.records.given.files import JSONL, PARQUET, GivenFile


def check_files(files: Sequence[GivenFile], dialect: Dialect) -> None:
    """Refuse files that cannot make a new table.

    Args:
        files: Files of one format.
        dialect: How they are written, if they are CSV.

    Raises:
        SingerlakeError: One cannot; says why, and what to do.
    """
    if files[0].format == PARQUET:
        for file in files:
            ParquetSource(file.source).specs()
    elif files[0].format != JSONL:
        check_names(_opened(files, dialect))


def check_for_table(
    files: Sequence[GivenFile], dialect: Dialect, columns: Columns, keys: Sequence[str]
) -> None:
    """Refuse files whose rows a table cannot take.

    Args:
        files: Files of one format.
        dialect: How they are written, if they are CSV.
        columns: The table's columns.
        keys: Names of those that are its key.

    Raises:
        SingerlakeError: It cannot; says why, and what to do.
    """
    if files[0].format == PARQUET:
        for file in files:
            source = ParquetSource(file.source)
            source.check(columns, keys)
            if not source.rows:
                raise InputError(f"{file.name} has columns and no row: there is nothing to upload")
    elif files[0].format == JSONL:
        for file in files:
            if not _has_lines(file):
                raise InputError(f"{file.name} has blank lines only: there is nothing to upload")
    else:
        layouts(_opened(files, dialect), columns, keys)


def _has_lines(file: GivenFile) -> bool:
    """Whether any line of a file is not blank."""
    compression = byte_sources.compression_of(file.source)
    chunks = (
        byte_sources.inflated(file.source, compression)
        if compression
        else byte_sources.chunks(file.source)
    )
    return any(chunk.strip() for chunk in chunks)


def _opened(files: Sequence[GivenFile], dialect: Dialect) -> list[CsvFile]:
    opened = [open_csv(file.source, dialect) for file in files]
    for file in opened:
        if not file.has_rows():
            raise InputError(
                f"{file.source.name} has a header and no row: there is nothing to upload"
            )
    return opened
