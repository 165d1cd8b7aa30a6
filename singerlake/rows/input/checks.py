"""Checks of given files without reading their rows: names, headers, footers."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import InputError
from singerlake.format.types import Columns
from singerlake.rows.input import byte_sources
from singerlake.rows.input.arrow.parquet_rows import ParquetSource
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.file import CsvFile, open_csv
from singerlake.rows.input.csv.rows import check_names, layouts
from singerlake.rows.input.files import JSONL, PARQUET, GivenFile


def check_files(files: Sequence[GivenFile], dialect: Dialect) -> list[str]:
    """Refuse files that cannot make a new table.

    Returns:
        What was found of how they are written, and nobody said.

    Raises:
        SingerlakeError: One cannot; says why, and what to do.
    """
    if files[0].format == PARQUET:
        for file in files:
            ParquetSource(file.source).specs()
    elif files[0].format != JSONL:
        opened = _opened(files, dialect)
        check_names(opened)
        return _found(opened, dialect)
    return []


def check_for_table(
    files: Sequence[GivenFile], dialect: Dialect, columns: Columns, keys: Sequence[str]
) -> list[str]:
    """Refuse files whose rows a table cannot take.

    Args:
        columns: The table's columns.
        keys: Names of those that are its key.

    Returns:
        As :func:`check_files`.

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
        opened = _opened(files, dialect)
        layouts(opened, columns, keys)
        return _found(opened, dialect)
    return []


_NAMES = {"\t": "tabs", ";": "semicolons"}


def _found(files: Sequence[CsvFile], dialect: Dialect) -> list[str]:
    found = dict.fromkeys(
        (file.dialect.delimiter, file.source.name, file.dialect.told) for file in files
    )
    return [
        f"the columns of {name} are separated by {_NAMES.get(one, repr(one))}"
        + ("" if said else f"; if that is one column, specify --delimiter {dialect.delimiter}")
        for one, name, said in found
        if one != dialect.delimiter
    ]


def _has_lines(file: GivenFile) -> bool:
    """Tell whether any line of a file is not blank."""
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
