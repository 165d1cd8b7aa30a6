"""Looks for what is sought in one object's bytes: lines, gzip of lines, Parquet, or anything."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.erasure import parquet, reading, spelling
from singerlake.erasure.reading import CopySource
from singerlake.erasure.sought import Sought, Text
from singerlake.errors import DamagedError
from singerlake.records.given.arrow.parquet_rows import MAGIC, seekable

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
    _GZIP: "gzip within gzip, deeper than is looked, or within a column",
    MAGIC: "Parquet within gzip",
}
"""How files begin whose text is packed or drawn, so that its bytes cannot be found in them."""
_MOST = max(map(len, OPAQUE))

MAX_DEPTH = 4
"""How often what was inflated may be gzip again."""
_PROBE = 1 << 20
"""Bytes that are inflated to see whether something is zlib: its two first bytes may be text."""
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_BASE64 = re.compile(rb'"message_base64"\s*:\s*"([A-Za-z0-9+/=]+)"')


class Hits:
    """Where one object has what is sought.

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


class Scanner:
    """Looks for several things at once.

    Args:
        sought: They.
        only_own: As for :meth:`Sought.in_line`.
    """

    def __init__(self, sought: Sequence[Sought], *, only_own: bool) -> None:
        self._sought = sought
        self._only_own = only_own
        self._pattern = spelling.either(one.pattern for one in sought)

    def look(self, source: CopySource) -> Hits:
        """Look through an object, and at its name.

        Raises:
            DamagedError: It cannot be read to its end.
            KeyMissingError: It was deleted meanwhile.
            StoreError: The store does not give it.
        """
        hits = Hits()
        self._look_at(source.name.encode("utf-8", "surrogatepass"), "its name", hits)
        data = reading.pieces(source)
        begin = next(data, b"")
        data = chain([begin], data)
        if begin.startswith(MAGIC):
            self._parquet(source, hits)
            return hits
        for _ in range(MAX_DEPTH):
            if not begin.startswith(reading.GZIP):
                break
            data = reading.inflated(data, source.name)
            begin = _beginning(data)
            data = chain([begin], data)
        hits.opaque = _opaque(begin)
        before = 0
        for batch in reading.batches(data):
            self._batch(batch, before, hits)
            self._other_encodings(batch, hits)
            if not hits.opaque and _GZIP in batch:
                hits.opaque = "gzip amid other bytes"
            before += batch.count(b"\n")
        return hits

    def _batch(self, batch: bytes, before: int, hits: Hits) -> None:
        """Look through some lines; ``before`` is how many came before them."""
        if self._may_be_in(batch):
            self._lines(batch.split(b"\n"), lambda index: f"line {before + index + 1:,}", hits)
        for found in _BASE64.finditer(batch):
            number = before + batch.count(b"\n", 0, found.start()) + 1
            where = f"line {number:,}, in Base64"
            self._look_at(parquet.decoded(found[1]), where, hits)

    def _other_encodings(self, batch: bytes, hits: Hits) -> None:
        where = "in another encoding than UTF-8"
        for one in self._sought:
            for spelled in one.other_bytes if isinstance(one, Text) else ():
                hits.add(one, where, batch.count(spelled))
        # JSON in UTF-16 is, but for its zeros, JSON in ASCII, where letters are escaped.
        if b"\0" in batch:
            self._look_at(batch.replace(b"\0", b""), where, hits)

    def _look_at(self, data: bytes, where: str, hits: Hits) -> None:
        """Look through bytes that have a place of their own."""
        if self._may_be_in(data):
            self._lines(data.split(b"\n"), lambda _: where, hits)

    def _lines(self, lines: Sequence[bytes], where: Callable[[int], str], hits: Hits) -> None:
        values = pa.array(lines, pa.large_binary())
        for one in self._sought:
            flags = pc.match_substring_regex(values, pattern=one.pattern)
            for index in pc.indices_nonzero(flags).to_pylist():
                if one.in_line(lines[index], only_own=self._only_own):
                    hits.add(one, where(index))

    def _may_be_in(self, data: bytes) -> bool:
        return matches(data, self._pattern)

    def _parquet(self, source: CopySource, hits: Hits) -> None:
        try:
            file = pq.ParquetFile(pa.PythonFile(seekable(source), "r"))
            for batch in parquet.batches(file, self._sought):
                for one, where, count in parquet.search(batch, self._sought):
                    hits.add(one, where, count)
                hits.opaque = hits.opaque or parquet.packed(batch, OPAQUE)
                for refused in parquet.refused_lines(batch):
                    self._look_at(refused, "a refused line in it", hits)
        except (pa.ArrowException, OSError) as error:
            words = "is no whole Parquet file, or has columns of a kind that cannot be searched"
            raise DamagedError(f"{source.name} {words}") from error
        footer = source.read(*_footer(source))
        self._batch(footer, 0, hits)


def _beginning(data: Iterator[bytes]) -> bytes:
    """Read as many pieces as it takes to know what they begin as."""
    begin = b""
    while len(begin) < _MOST and (piece := next(data, b"")):
        begin += piece
    return begin


def _opaque(begin: bytes) -> str:
    """What bytes are that begin so, where their text is packed or drawn; else nothing."""
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


def matches(data: bytes, pattern: bytes) -> bool:
    """Tell whether a pattern is in some bytes: as one value of Arrow's, in time linear in them."""
    if not data:
        return not pattern
    ends = pa.py_buffer(bytes(8) + len(data).to_bytes(8, "little"))  # it begins at 0
    one = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(data)])
    return bool(pc.match_substring_regex(one, pattern=pattern)[0].as_py())


def _footer(source: CopySource) -> tuple[int, int]:
    """Where a Parquet file's footer is: it repeats values, as the smallest and the largest."""
    length = int.from_bytes(source.read(source.size - 8, 4), "little") + 8
    return max(0, source.size - length), length
