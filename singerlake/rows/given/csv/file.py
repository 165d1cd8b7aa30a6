"""A CSV file: how it is written, what its columns are called, and where its rows begin."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from singerlake.errors import UsageError
from singerlake.rows.batches.problems import Problem, Problems, kept, rejected
from singerlake.rows.given import byte_sources
from singerlake.rows.given.byte_sources import ByteSource
from singerlake.rows.given.csv import safe_cells
from singerlake.rows.given.csv.dialect import OTHER_DELIMITERS, UTF_8, Dialect
from singerlake.rows.given.csv.exact import Record, records
from singerlake.rows.given.csv.ranges import Range

_MARK = "\ufeff".encode()
_INVALID = "singerlake-invalid"
_OTHER_DELIMITERS = (*OTHER_DELIMITERS, ",")
_LONGEST_MARK = 4
_SEP = re.compile(rb'sep=([^"\r\n\x80-\xff])\r?\n', re.IGNORECASE)
_LONGEST_SEP = 7


@dataclass(frozen=True)
class CsvFile:
    """A CSV file that was looked into.

    Its text is what it holds when it is inflated and, unless its quotes and ends of lines can be
    told from the bytes as they are, turned into UTF-8.

    Attributes:
        source: Its bytes.
        dialect: How it is written.
        compression: How it is compressed, if it is.
        names: Its columns, as its header has them.
        start: Where its rows begin in its text, in bytes.
        line: On which line, from 1.
    """

    source: ByteSource
    dialect: Dialect
    compression: str | None
    names: tuple[str, ...]
    start: int
    line: int

    @property
    def splittable(self) -> bool:
        """Whether it can be read from any byte on."""
        return _splittable(self.compression, self.dialect)

    def place(self, index: int) -> Range:
        """Return the range of all its rows.

        Args:
            index: The file's index among those that are read together.
        """
        stop = self.source.size if self.splittable else None
        return Range(index, self.start, stop, line=self.line)

    def text(self, start: int, stop: int | None = None) -> Iterator[bytes]:
        """Read its text from some byte to its end, in chunks.

        Args:
            start: The first byte wanted.
            stop: Where the caller hopes to end.
        """
        return _text(self.source, self.compression, self.dialect, start, stop)

    def has_rows(self) -> bool:
        """Whether anything comes behind the header."""
        return any(self.text(self.start))


def open_csv(source: ByteSource, dialect: Dialect) -> CsvFile:
    """Look into a file.

    Args:
        source: Its bytes.
        dialect: How it is written, as far as anybody said.

    Raises:
        RejectedRowsError: It is empty, or its header cannot be read.
        UsageError: Its delimiter cannot be told.
        DamagedError: It is compressed, and damaged.
        SingerlakeError: It cannot be read.
    """
    compression = byte_sources.compression_of(source)
    dialect = _in_its_encoding(source, compression, dialect)
    mark = _has_mark(_text(source, compression, dialect, 0))
    start = len(_MARK) if mark else 0
    dialect = _with_the_delimiter_it_says(_text(source, compression, dialect, start), dialect)
    start += _skipped(_text(source, compression, dialect, start), dialect.skip)
    dialect = _with_its_delimiter(
        source, lambda: _text(source, compression, dialect, start), dialect
    )
    line = 1 + dialect.skip
    if dialect.names is not None:
        return CsvFile(source, dialect, compression, dialect.names, start, line)
    header = next(records(_text(source, compression, dialect, start), line, dialect), None)
    if header is None:
        reason = "the file is empty: its first line should name its columns"
        if dialect.skip:
            reason = f"the file ends there: skip fewer than {dialect.skip:,} lines"
        raise _refused(source, reason, line)
    names = _names(source, header, dialect)
    lines = sum(cell.count(b"\n") for cell in header.cells)
    return CsvFile(source, dialect, compression, names, start + header.end, line + 1 + lines)


def _in_its_encoding(source: ByteSource, compression: str | None, dialect: Dialect) -> Dialect:
    """Take a file that begins with a byte order mark no UTF-8 has for what it says."""
    if dialect.codec != UTF_8:
        return dialect
    begins = b""
    for chunk in _text(source, compression, dialect, 0):
        begins += chunk
        if len(begins) >= _LONGEST_MARK:
            break
    codec = byte_sources.encoding_of(begins)
    return dialect if codec is None else replace(dialect, encoding=codec)


def _with_the_delimiter_it_says(text: Iterator[bytes], dialect: Dialect) -> Dialect:
    """Skip the line that tells spreadsheets the delimiter, and go by it if nobody said another."""
    if dialect.skip:
        return dialect
    begins = b""
    for chunk in text:
        begins += chunk
        if len(begins) >= _LONGEST_SEP:
            break
    found = _SEP.match(begins)
    if found is None:
        return dialect
    said = dialect.delimiter if dialect.told else found[1].decode()
    return replace(dialect, skip=1, delimiter=said, told=True)


def _skipped(text: Iterator[bytes], lines: int) -> int:
    """Return how many bytes some lines have at the beginning of a text."""
    count = 0
    for chunk in text if lines else ():
        at = 0
        while lines and (end := chunk.find(b"\n", at)) >= 0:
            at, lines = end + 1, lines - 1
        count += len(chunk) if lines else at
        if not lines:
            break
    return count


def _with_its_delimiter(
    source: ByteSource, text: Callable[[], Iterator[bytes]], dialect: Dialect
) -> Dialect:
    """Find the delimiter that nobody said, where the first line has one cell otherwise.

    Raises:
        UsageError: It may be one of several.
    """
    if dialect.told or _cells(text(), dialect, dialect.delimiter) > 1:
        return dialect
    widths = {one: _cells(text(), dialect, one) for one in OTHER_DELIMITERS}
    names = len(dialect.names or ())
    found = [one for one, width in widths.items() if width > 1 and width == (names or width)]
    if len(found) > 1:
        several = ", ".join(repr(one) for one in found)
        raise UsageError(
            f"{source.name} has one column if {dialect.delimiter!r} separates them, and several "
            f"with each of {several}: specify --delimiter"
        )
    return replace(dialect, delimiter=found[0]) if found else dialect


def _cells(text: Iterator[bytes], dialect: Dialect, delimiter: str) -> int:
    """How many cells the first record has by a delimiter; 0 if it is no record by that."""
    first = next(records(text, 1, replace(dialect, delimiter=delimiter)), None)
    return 0 if first is None or first.faults else len(first.cells)


def wrong_delimiter(names: tuple[str, ...], delimiter: str) -> str | None:
    """Tell which other delimiter a header of one name looks as if it had."""
    others = [one for one in _OTHER_DELIMITERS if one != delimiter and one in names[0]]
    return others[0] if len(names) == 1 and others else None


def _has_mark(text: Iterator[bytes]) -> bool:
    begins = b""
    while len(begins) < len(_MARK) and (chunk := next(text, b"")):
        begins += chunk
    return begins.startswith(_MARK)


def _names(source: ByteSource, header: Record, dialect: Dialect) -> tuple[str, ...]:
    codec = dialect.codec if dialect.splittable else UTF_8
    line = header.line
    if header.faults:
        fault = header.faults[0]
        value = kept(fault.value.decode(codec, "backslashreplace"))
        raise _refused(source, f"{fault.reason}; this line should name the columns", line, value)
    if header.cells == [b""]:
        raise _refused(source, "is blank, and should name the columns", line)
    names = []
    for cell in header.cells:
        try:
            names.append(cell.decode(codec))
        except UnicodeDecodeError as error:
            value = kept(cell.decode(codec, "backslashreplace"))
            reason = f"is not in {dialect.encoding}: set its encoding with --encoding"
            raise _refused(source, reason, line, value) from error
        if "\0" in names[-1]:
            reason = "contains zero bytes, as UTF-16 does: set its encoding with --encoding"
            raise _refused(source, reason, line, names[-1])
        if (name := safe_cells.read_name(names[-1], dialect)) is None:
            raise _refused(source, safe_cells.UNDECIDED, line, names[-1])
        names[-1] = name
    return tuple(names)


def _refused(source: ByteSource, reason: str, line: int, value: str | None = None) -> Exception:
    return rejected(Problems(1, [Problem(source.name, line, None, value, reason)]))


def _splittable(compression: str | None, dialect: Dialect) -> bool:
    return compression is None and dialect.splittable


def _text(
    source: ByteSource,
    compression: str | None,
    dialect: Dialect,
    start: int,
    stop: int | None = None,
) -> Iterator[bytes]:
    if _splittable(compression, dialect):
        return byte_sources.chunks(source, start, stop)
    stream = (
        byte_sources.inflated(source, compression) if compression else byte_sources.chunks(source)
    )
    return _without(start, stream if dialect.splittable else _decoded(stream, dialect.codec))


def _without(count: int, stream: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in stream:
        if count < len(chunk):
            yield chunk[count:]
        count = max(0, count - len(chunk))


def _decoded(stream: Iterator[bytes], codec: str) -> Iterator[bytes]:
    """Turn bytes of any encoding into UTF-8; what is invalid in one is invalid in the other."""
    decoder = codecs.getincrementaldecoder(codec)(_INVALID)
    for chunk in stream:
        yield decoder.decode(chunk).encode(UTF_8, "surrogatepass")
    yield decoder.decode(b"", final=True).encode(UTF_8, "surrogatepass")


def _lone_surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80", error.end


codecs.register_error(_INVALID, _lone_surrogate)
