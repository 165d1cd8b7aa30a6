"""How a CSV file is written: its delimiter, its encoding, and what stands for null in it.

The grammar is that of RFC 4180: a cell in quotes may hold delimiters, ends of lines and doubled
quotes; lines end in LF or CRLF. Nothing else is taken: a quote within a bare cell, or text behind
a closing quote, is an error, because programs do not agree on what it means.
"""

from __future__ import annotations

import codecs
import importlib
from dataclasses import dataclass
from functools import cached_property

from singerlake.errors import UsageError

UTF_8 = "utf-8"
_SPECIAL = '"\r\n'
OTHER_DELIMITERS = (";", "\t", "|")
"""What may separate cells where nobody said what does."""


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV file is written.

    Attributes:
        delimiter: Between two cells: one character of ASCII.
        encoding: As Python names it; :attr:`codec` is the name that Python itself prefers. A file
            that begins with the byte order mark of UTF-16 or UTF-32 is in that, instead of UTF-8.
        null: What a bare cell says for null. The same in quotes is a text.
        names: The columns of a file without a header.
        decimal: The mark before the decimals of a number: a point or a comma.
        skip: Lines before the header, or before the rows of a file without one.
        told: Whether somebody said the delimiter; else it may be another one of
            :data:`OTHER_DELIMITERS`, if the first line has one cell otherwise.
        safe_cells: Whether the apostrophe is taken off that ``query --safe-cells`` puts before
            texts; None where nobody said, and a cell that may have one is refused.

    Raises:
        UsageError: There is no such encoding, or one of them cannot be what it is to be.
    """

    delimiter: str = ","
    encoding: str = UTF_8
    null: str = ""
    names: tuple[str, ...] | None = None
    decimal: str = "."
    skip: int = 0
    told: bool = True
    safe_cells: bool | None = None

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in _SPECIAL:
            raise UsageError(
                f"the delimiter {self.delimiter!r} is not one character of ASCII other than a "
                "quote or an end of line"
            )
        if any(one in self.null for one in (*_SPECIAL, self.delimiter)):
            raise UsageError(
                f"{self.null!r} cannot mean null: an unquoted cell cannot contain a delimiter, a "
                "quote or an end of line"
            )
        if self.decimal not in (".", ","):
            raise UsageError(f"the decimal mark {self.decimal!r} is neither a point nor a comma")
        if self.skip < 0:
            raise UsageError(f"{self.skip} lines cannot be skipped: use 0 or more")
        if self.names is not None and not self.names:
            raise UsageError("a file without a header needs --columns")
        try:
            self.null.encode(self.codec)
        except UnicodeEncodeError as error:
            raise UsageError(f"{self.null!r} cannot stand in a file in {self.encoding}") from error

    @cached_property
    def codec(self) -> str:
        """The encoding's own name; a byte order mark is no part of UTF-8."""
        try:
            found = codecs.lookup(self.encoding)
            "".encode(self.encoding)  # a codec between bytes and bytes is no encoding
        except LookupError as error:
            raise UsageError(
                f"there is no encoding {self.encoding!r}: use utf-8, utf-16, cp1252, latin-1 …"
            ) from error
        return UTF_8 if found.name in ("utf-8-sig", "ascii") else found.name

    @cached_property
    def splittable(self) -> bool:
        """Whether quotes and ends of lines can be told from a file's bytes, wherever they stand.

        So it is with UTF-8, and with encodings of one byte a character in which these are as in
        ASCII. In any other, what a byte means depends on those before it.
        """
        return self.codec == UTF_8 or _is_single_byte(self.codec, f"{_SPECIAL}{self.delimiter}")


def _is_single_byte(codec: str, special: str) -> bool:
    # Python's encodings of one byte a character are tables of 256 of them.
    module = importlib.import_module(f"encodings.{codec.replace('-', '_')}")
    table = getattr(module, "decoding_table", "")
    return all(table.count(one) == 1 and table[ord(one)] == one for one in special)
