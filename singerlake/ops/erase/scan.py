"""Looks for what is sought in one object: lines, gzip, Parquet, Arrow, Avro, or any bytes."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.errors import DamagedError
from singerlake.ops.erase import avro, dead_letters, parquet, reading, spelling
from singerlake.ops.erase.reading import CopySource
from singerlake.ops.erase.sought import Key, Sought, Text
from singerlake.rows.input.arrow.parquet_rows import MAGIC, seekable

# Opens files and streams of Arrow's own format, whose buffers may be packed.

FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""How a file begins, and how a stream does; other bytes may begin as a stream does."""
MAGICS = (FILE, STREAM)


def opened(source: CopySource, begin: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Open a file or a stream; None where the bytes are no stream after all.

    Raises:
        pa.ArrowException: It begins as a file, and is not a whole one.
    """
    packed = pa.PythonFile(seekable(source), "r")
    if begin.startswith(FILE):
        file = pa.ipc.open_file(packed)
        return file.schema, map(file.get_batch, range(file.num_record_batches))
    try:
        stream = pa.ipc.open_stream(packed)
    except (pa.ArrowException, OSError):
        return None
    return stream.schema, iter(stream)


_GZIP = reading.GZIP + b"\x08"
"""With the only way in which gzip packs: fewer other bytes look like it."""
OPAQUE = {
    b"PK\x03\x04": "a ZIP archive, or an office document",
    b"%PDF": "a PDF",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"Obj\x01": "Avro",
    b"ORC": "ORC",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    _GZIP: "gzip within gzip, deeper than the search goes, or within a column",
    MAGIC: "Parquet within gzip",
    FILE: "Arrow within gzip",
    b"PARE": "encrypted Parquet",
}
"""How files begin whose text is packed or drawn, so that its bytes cannot be found in them."""
_MOST = max(map(len, OPAQUE))

MAX_DEPTH = 4
"""How often what was inflated may be gzip again."""
_PROBE = 1 << 20
"""Bytes that are inflated to see whether something is zlib: its two first bytes may be text."""
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_SURE_BYTES = 6
"""What is as long is in no packed bytes by chance."""


class Hits:
    """The places in one object that contain what is sought.

    Attributes:
        counts: Lines, or values, by what is sought.
        first: Where each was seen first, in words.
        opaque: What the object is, where a text in it may be spelled in no way that was looked
            for; else empty.
    """

    def __init__(self) -> None:
        self.counts: Counter[Sought] = Counter()
        self.first: dict[Sought, str] = {}
        self.opaque = ""

    def add(self, one: Sought, where: str, count: int = 1) -> None:
        """Note that something was seen."""
        if count:
            self.counts[one] += count
            self.first.setdefault(one, where)

    def add_besides(self, others: Hits) -> None:
        """Note what was seen beside lines and values, once, where it was not seen in these.

        The same bytes may have been looked at in several ways.
        """
        for one in others.counts.keys() - self.counts.keys():
            self.add(one, others.first[one])


class Scanner:
    """Looks for several things at once.

    Args:
        only_own: As for :meth:`Sought.in_line`.
    """

    def __init__(self, sought: Sequence[Sought], *, only_own: bool) -> None:
        self._sought = sought
        self._only_own = only_own
        self._texts = [one for one in sought if isinstance(one, Text)]
        self._long = [one for one in self._texts if len(one.text.encode()) >= _SURE_BYTES]
        self._accented = [one for one in sought if isinstance(one, Key) and not one.is_ascii]
        self._raw = spelling.raw_parts(text for one in self._accented for text in one.texts)

    def look(self, source: CopySource) -> Hits:
        """Look through an object, and at its name.

        Raises:
            DamagedError: It cannot be read to its end.
            KeyMissingError: It was deleted meanwhile.
            StoreError: The store does not give it.
        """
        hits, besides = Hits(), Hits()
        name = source.name.encode("utf-8", "surrogatepass")
        self._look_at(name, "its name", hits)
        self._quoted(name, "its name, percent-encoded", besides)
        data = reading.pieces(source)
        begin = next(data, b"")
        data = chain([begin], data)
        if begin.startswith(MAGIC):
            self._parquet(source, hits, besides)
        elif begin.startswith(MAGICS):
            self._arrow(source, begin, hits, besides)
        else:
            self._look_through(data, source.name, hits, besides)
        hits.add_besides(besides)
        return hits

    def _look_through(self, data: Iterator[bytes], name: str, hits: Hits, besides: Hits) -> None:
        """Look through lines, or gzip of lines, or anything."""

        def on_header(header: bytes) -> None:
            noted = (header, reading.said(header, alone=True))
            self._anywhere(b"\n".join(noted), "a gzip header in it", besides)

        begin = next(data, b"")
        data = chain([begin], data)
        for _ in range(MAX_DEPTH):
            if not begin.startswith(reading.GZIP):
                break
            data = reading.inflated(data, name, on_header)
            begin = _beginning(data)
            data = chain([begin], data)
        if begin.startswith(avro.MAGIC):
            self._avro(data, name, hits, besides)
            return
        hits.opaque = _opaque(begin)
        before = 0
        for batch in reading.batches(data):
            self._batch(batch, before, hits)
            self._other_encodings(batch, besides)
            if not hits.opaque and _GZIP in batch:
                hits.opaque = "gzip amid other bytes"
            before += batch.count(b"\n")

    def _avro(self, data: Iterator[bytes], name: str, hits: Hits, besides: Hits) -> None:
        """Look through the blocks of an Avro file, as they stand and unpacked."""
        for is_block, stored, unpacked in avro.parts(data, name):
            if not is_block:
                self._anywhere(stored, "its header", besides)
                continue
            self._look_at(stored, "its bytes", besides, self._long)
            self._look_at(unpacked, "a block of Avro", hits)
            self._other_encodings(unpacked, besides)
            if _GZIP in unpacked:
                hits.opaque = "gzip amid other bytes"

    def _arrow(self, source: CopySource, begin: bytes, hits: Hits, besides: Hits) -> None:
        """Look through the values of Arrow's own format, and through its bytes as they stand."""
        try:
            if (found := opened(source, begin)) is None:
                self._look_through(reading.pieces(source), source.name, hits, besides)
                return
            schema, batches = found
            for batch in batches:
                self._columns(batch, hits, besides)
                for one, where, count in parquet.search_dictionaries(batch, self._sought):
                    besides.add(one, where, count)
        except (pa.ArrowException, OSError) as error:
            words = "is not a complete Arrow file, or has columns that cannot be searched"
            raise DamagedError(f"{source.name} {words}") from error
        self._anywhere(schema.serialize().to_pybytes(), "its schema", besides)
        self._bytes_of(source, [], besides)

    def _columns(self, batch: pa.RecordBatch, hits: Hits, besides: Hits) -> None:
        """Look through some rows' values."""
        for one, where, count in parquet.search(batch, self._sought):
            hits.add(one, where, count)
        hits.opaque = hits.opaque or parquet.packed(batch, OPAQUE)
        for refused in parquet.refused_lines(batch):
            self._rejected(refused, "a rejected line in it", hits)
        self._quoted_values(batch, besides)

    def _batch(self, batch: bytes, before: int, hits: Hits) -> None:
        """Look through some lines; ``before`` is how many came before them."""
        if may_be_in(batch, self._sought):
            self._lines(
                batch.split(b"\n"), lambda index: f"line {before + index + 1:,}", hits, self._sought
            )
        for line, number in dead_letters.in_base64(batch, before):
            self._rejected(line, f"line {number:,}, in Base64", hits)
        if dead_letters.may_have_messages(batch):
            self._messages(batch.split(b"\n"), before, hits)

    def _messages(self, rows: Sequence[bytes], before: int, hits: Hits) -> None:
        """Look through rejected lines that rows keep as texts, where the rows may have something.

        Patterns match in a row what they match in its text, unless that is hidden.
        """
        pattern = spelling.either([*(one.pattern for one in self._sought), dead_letters.NOT_PLAIN])
        flags = pc.match_substring_regex(pa.array(rows, pa.large_binary()), pattern=pattern)
        for index in pc.indices_nonzero(flags).to_pylist():
            for line in dead_letters.messages_in(rows[index]):
                where = f"line {before + index + 1:,}, as rejected"
                self._rejected(line, where, hits, rows[index])

    def _rejected(self, line: bytes, where: str, hits: Hits, row: bytes = b"") -> None:
        """Look through a rejected line as through a file that has nothing else in it.

        Args:
            row: What was looked through already, and has the line in it.
        """
        own, besides = Hits(), Hits()
        self._look_through(iter([line]), f"a rejected line ({where})", own, besides)
        own.add_besides(besides)
        for one, count in own.counts.items():
            if not (matches(row, one.pattern) and one.in_line(row, only_own=self._only_own)):
                hits.add(one, where, count)
        hits.opaque = hits.opaque or own.opaque

    def _anywhere(self, data: bytes, where: str, besides: Hits) -> None:
        """Look through bytes that need not be lines, in all encodings."""
        self._look_at(data, where, besides)
        self._other_encodings(data, besides)

    def _other_encodings(self, batch: bytes, besides: Hits) -> None:
        where = "in another encoding than UTF-8"
        for one in self._texts:
            for spelled in one.other_bytes:
                besides.add(one, where, batch.count(spelled))
        # JSON in UTF-16 is, but for its zeros, JSON in ASCII, where letters are escaped.
        if b"\0" in batch:
            self._look_at(batch.replace(b"\0", b""), where, besides)
        for text in spelling.in_utf8(batch, self._raw) if self._accented else ():
            self._look_at(text, where, besides, self._accented)
        self._quoted(batch, "percent-encoded", besides)

    def _quoted(self, data: bytes, where: str, besides: Hits) -> None:
        """Look for texts in what is percent-encoded; a key that is a text is only itself."""
        if self._texts and re.search(spelling.QUOTED, data):
            for one in self._texts:
                besides.add(one, where, int(matches(data, one.quoted_pattern)))

    def _look_at(
        self, data: bytes, where: str, hits: Hits, sought: Sequence[Sought] | None = None
    ) -> None:
        """Look through bytes that have a place of their own, for all or for some."""
        sought = self._sought if sought is None else sought
        if may_be_in(data, sought):
            self._lines(data.split(b"\n"), lambda _: where, hits, sought)

    def _lines(
        self,
        lines: Sequence[bytes],
        where: Callable[[int], str],
        hits: Hits,
        sought: Sequence[Sought],
    ) -> None:
        values = pa.array(lines, pa.large_binary())
        for one in sought:
            flags = pc.match_substring_regex(values, pattern=one.pattern)
            for index in pc.indices_nonzero(flags).to_pylist():
                if one.in_line(lines[index], only_own=self._only_own):
                    hits.add(one, where(index))

    def _parquet(self, source: CopySource, hits: Hits, besides: Hits) -> None:
        """Look through columns, and through what of the file's bytes is no column's."""
        try:
            file = pq.ParquetFile(pa.PythonFile(seekable(source), "r"))
            for batch in parquet.batches(file, self._sought):
                self._columns(batch, hits, besides)
            for batch in parquet.dictionaries(seekable(source), file.metadata):
                for one, where, count in parquet.search_dictionaries(batch, self._sought):
                    besides.add(one, where, count)
                self._quoted_values(batch, besides)
            unclaimed = parquet.unclaimed(file.metadata, source.size)
        except (pa.ArrowException, OSError) as error:
            words = (
                "is not a complete Parquet file, or has columns of a kind that cannot be searched"
            )
            raise DamagedError(f"{source.name} {words}") from error
        self._bytes_of(source, unclaimed, besides)

    def _quoted_values(self, batch: pa.RecordBatch, besides: Hits) -> None:
        for values in parquet.quoted(batch) if self._texts else ():
            self._quoted(values, "a value that is percent-encoded", besides)

    def _bytes_of(
        self, source: CopySource, unclaimed: Sequence[tuple[int, int]], besides: Hits
    ) -> None:
        """Look through the bytes of a file of columns.

        What is long is looked for in all of them: a page's header repeats values, and what is
        between pages is nobody's.
        """
        where = "outside its columns"
        for start, end in unclaimed:
            for batch in reading.batches(reading.pieces(source, start, end)):
                self._anywhere(batch, where, besides)
                for decoded in spelling.base64_in(batch) if end == source.size else ():
                    self._anywhere(decoded, where, besides)
        if self._long:
            for batch in reading.batches(reading.pieces(source)):
                self._look_at(batch, "its bytes", besides, self._long)


def _beginning(data: Iterator[bytes]) -> bytes:
    """Read as many pieces as it takes to know what they begin as."""
    begin = b""
    while len(begin) < _MOST and (piece := next(data, b"")):
        begin += piece
    return begin


def _opaque(begin: bytes) -> str:
    """Name the packed or drawn format of bytes that begin so; nothing for others."""
    for magic, words in OPAQUE.items():
        if begin.startswith(magic):
            return words
    if begin.startswith(_ZLIB):
        try:
            if zlib.decompressobj().decompress(begin, _PROBE):
                return "compressed with zlib"
        except zlib.error:  # text may begin so
            return ""
    return ""


def may_be_in(data: bytes, sought: Sequence[Sought]) -> bool:
    """Tell whether a pattern of what is sought is in some bytes."""
    return matches(data, spelling.either(one.pattern for one in sought))


def matches(data: bytes, pattern: bytes) -> bool:
    """Tell whether a pattern is in some bytes: as one value of Arrow's, in time linear in them."""
    if not data:
        return not pattern
    ends = pa.py_buffer(bytes(8) + len(data).to_bytes(8, "little"))  # it begins at 0
    one = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(data)])
    return bool(pc.match_substring_regex(one, pattern=pattern)[0].as_py())
