"""The fast way to read CSV: whole blocks by ``pyarrow.csv``, or not at all.

pyarrow is lenient: it takes a quote in a bare cell as a character, drops quotes behind a cell's
end, ends a record at a lone carriage return, makes nulls of a blank line, and drops a byte order
mark wherever a block begins with one. Where a block has any of that, it is left to the exact way
(``exact.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
from numpy.typing import NDArray

from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.input.csv.dialect import UTF_8, Dialect

_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D
_MARK = "\ufeff".encode()
_FIRST, _NONE = np.zeros(1, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class TextRows:
    """Records as texts.

    Attributes:
        cells: Column by column; null where a cell says so.
        lines: The line on which each record begins, from 1.
    """

    cells: list[pa.Array]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)


def read(data: bytes, line: int, width: int, dialect: Dialect) -> TextRows | None:
    """Read a block of whole records, or say that this cannot be done safely.

    Args:
        data: The block; not empty.
        line: The line on which it begins, from 1.
        width: Cells of each record.
    """
    offsets = _line_offsets(data, width, dialect)
    if offsets is None:
        return None
    if dialect.codec != UTF_8 and dialect.splittable:
        try:
            data = data.decode(dialect.codec).encode()
        except UnicodeDecodeError:
            return None
    if data.startswith(_MARK):
        return None
    if not data.endswith(b"\n"):
        data += b"\n"  # else an empty last cell behind one in quotes is taken to be in quotes too
    try:
        table = _table(data, width, dialect)
    except pa.ArrowInvalid:
        return None
    if len(table) != len(offsets):
        return None
    return TextRows([_whole(column) for column in table.columns], offsets + line)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)  # combined, even one chunk would be copied
    cells = column.combine_chunks()
    return cells.chunk(0) if isinstance(cells, pa.ChunkedArray) else cells


def _table(data: bytes, width: int, dialect: Dialect) -> pa.Table:
    names = aliases(width)
    return pv.read_csv(
        pa.BufferReader(data),
        read_options=pv.ReadOptions(
            column_names=names, block_size=len(data) + 1, use_threads=False
        ),
        parse_options=pv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char='"' if b'"' in data else False,
            newlines_in_values=True,
            ignore_empty_lines=False,
        ),
        convert_options=pv.ConvertOptions(
            check_utf8=not data.isascii(),
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _line_offsets(data: bytes, width: int, dialect: Dialect) -> NDArray[np.int64] | None:
    """Return how many lines after the first each record begins; None if the grammar is in doubt."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    quotes = np.flatnonzero(text == _QUOTE) if b'"' in data else _NONE
    if len(quotes) % 2 or not _well_quoted(text, quotes, ord(dialect.delimiter)):
        return None
    if b"\r" in data and not _returns_end_lines(text, quotes):
        return None
    if len(quotes):
        ending = np.flatnonzero(np.searchsorted(quotes, ends) % 2 == 0)
        ends = ends[ending]
        offsets = np.concatenate((_FIRST, ending + 1))
    else:
        offsets = np.arange(len(ends) + 1)
    if width > 1 and _any_blank(text, ends):
        return None
    return offsets[:-1] if data[-1] == _NEWLINE else offsets


def _well_quoted(text: NDArray[np.uint8], quotes: NDArray[np.int64], delimiter: int) -> bool:
    """Tell whether each quote opens a cell, closes one, or is doubled in one."""
    opening, closing = quotes[0::2], quotes[1::2]
    # A doubled quote closes a cell and opens it again at once.
    again = np.zeros(len(opening) + 1, bool)
    again[1:-1] = opening[1:] == closing[:-1] + 1
    before = np.where(opening == 0, _NEWLINE, text[opening - 1])
    behind = text[np.minimum(closing + 1, len(text) - 1)]
    ends_line = (behind == _NEWLINE) | (closing + 1 >= len(text))
    if _RETURN in behind:
        two = text[np.minimum(closing + 2, len(text) - 1)]
        ends_line |= (behind == _RETURN) & (two == _NEWLINE) & (closing + 2 < len(text))
    opens = again[:-1] | (before == delimiter) | (before == _NEWLINE)
    closes = again[1:] | (behind == delimiter) | ends_line
    return bool(opens.all() and closes.all())


def _returns_end_lines(text: NDArray[np.uint8], quotes: NDArray[np.int64]) -> bool:
    """Tell whether each carriage return outside quotes stands before an end of line."""
    returns = np.flatnonzero(text == _RETURN)
    bare = returns[np.searchsorted(quotes, returns) % 2 == 0]
    return bool(len(bare) == 0 or (bare[-1] + 1 < len(text) and (text[bare + 1] == _NEWLINE).all()))


def _any_blank(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> bool:
    """Tell whether there is nothing between the ends of two records."""
    lengths = np.diff(ends, prepend=-1)
    if len(lengths) == 0 or lengths.min() > 2:  # noqa: PLR2004  # an end of line, and one before it
        return False
    short = ends[lengths == 2]  # noqa: PLR2004
    return bool((lengths == 1).any() or (text[short - 1] == _RETURN).any())
