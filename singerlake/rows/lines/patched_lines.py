"""Some members set anew in many lines at once, every other byte left as the tap wrote it.

What ``members.patched`` does to one line is done here to many, in a fraction of the time: where
names and values stand is found in the bytes of all of them together. That is certain in lines
whose record holds no object, where each name stands once, and whose old values are no arrays. All
other lines are left to ``members.patched``, as are those that get a member or lose one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.rows.columns import text_bytes
from singerlake.rows.lines.members import name_text

_Rows = NDArray[np.bool_]
_Places = NDArray[np.int64]
_Bytes = NDArray[np.uint8]
_OPEN, _CLOSE, _QUOTE, _BACKSLASH, _COLON, _SPACE, _COMMA = (ord(c) for c in '{}"\\: ,')
_WHITE = np.frombuffer(b" \t\r\n", np.uint8)
_BEFORE_NAME = np.frombuffer(b"{, \t", np.uint8)
_BEHIND_NAME = np.frombuffer(b": \t\r\n", np.uint8)
_NOT_PLAIN = np.frombuffer(b"[{", np.uint8)
_RECORD = b'"record":'
_TIME = b'"time_extracted"'
_LENGTHS = np.arange(40)
"""Of a number or a word; no type of ours holds a longer one."""
_NOTHING = pa.scalar(b"", pa.large_binary())


class NewValues(NamedTuple):
    """The new values of a member.

    Attributes:
        is_set: In which rows it is set.
        texts: The values as JSON, large strings; null takes the member away.
    """

    name: str
    is_set: _Rows
    texts: pa.Array


class Patched(NamedTuple):
    """Lines that were changed, those that could not be left out.

    Attributes:
        rows: Their indexes, rising.
        lines: They, with their newlines.
        records: Their records, each with a newline.
    """

    rows: _Places
    lines: pa.Array
    records: pa.Array


class _Edit(NamedTuple):
    """A span in each line, and what takes its place; in lines that are not meant it is nowhere.

    Attributes:
        is_set: The lines that are meant.
        texts: What takes its place; None for a place where lines are only cut.
    """

    start: _Places
    end: _Places
    is_set: _Rows
    texts: pa.Array | pa.Scalar | None = None


def patched_lines(lines: pa.Array, new: Sequence[NewValues], stamp: str) -> Patched:
    """Set members of the records of RECORD lines.

    Args:
        lines: Large binary, each with its newline.
        stamp: The ``time_extracted`` that lines get.
    """
    rows = np.arange(len(lines))
    while len(rows):
        found = _Lines(lines, new, stamp)
        sure = found.sure
        if sure.all():
            return Patched(rows, *found.put_together())
        chosen = pa.array(sure)
        lines, rows = lines.filter(chosen), rows[sure]
        new = [NewValues(v.name, v.is_set[sure], v.texts.filter(chosen)) for v in new]
    nothing = pa.array([], pa.large_binary())
    return Patched(rows, nothing, nothing)


class _Lines:
    """Lines, and what is to be put where."""

    def __init__(self, lines: pa.Array, new: Sequence[NewValues], stamp: str) -> None:
        self._lines = lines
        self._at = text_bytes.ends(lines) - text_bytes.ends(lines)[0]
        self._bytes = _Text(text_bytes.written(lines))
        self._edits: list[_Edit] = []
        self.sure = self._two_objects()
        if self.sure.all():
            self._find(new, stamp)

    def _two_objects(self) -> _Rows:
        """Return which lines hold no object except their record."""
        data, sure = self._bytes.data, np.ones(len(self._lines), np.bool_)
        opened, closed = np.flatnonzero(data == _OPEN), np.flatnonzero(data == _CLOSE)
        for found in (opened, closed):
            sure &= np.diff(np.searchsorted(found, self._at)) == 2  # noqa: PLR2004  # and the line
        if sure.all():
            start, end = opened[1::2], closed[::2] + 1
            sure &= self._bytes.stands_before(start, _RECORD) & (start < end)
            self._record = start, end
        return sure

    def _find(self, new: Sequence[NewValues], stamp: str) -> None:
        start, end = self._record
        every = np.ones(len(self._lines), np.bool_)
        self._edits += [_Edit(start, start, every), _Edit(end, end, every)]
        self.sure &= ~self._lines_of(self._bytes.escaped_names)
        for name, is_set, texts in new:
            if not is_set.any():
                continue
            edit, certain = self._value(name_text(name), is_set, texts.cast(pa.large_binary()))
            certain &= (start < edit.start) & (edit.end < end)
            certain &= texts.is_valid().to_numpy(zero_copy_only=False)
            self.sure &= certain | ~is_set
            self._edits.append(edit)
        time = pa.scalar(b'"%b"' % stamp.encode("ascii"), pa.large_binary())
        edit, certain = self._value(_TIME, every, time)
        self.sure &= certain & ((edit.end < start) | (end < edit.start))
        self._edits.append(edit)
        self._put_in_order()

    def _value(
        self, name: bytes, is_set: _Rows, texts: pa.Array | pa.Scalar
    ) -> tuple[_Edit, _Rows]:
        """Find the value of a name in each line; and where it is certain that it is this."""
        found = self._bytes.places(name)
        line = np.searchsorted(self._at, found, side="right") - 1
        certain = np.bincount(line, minlength=len(is_set)) == 1
        place = np.ones(len(is_set), np.int64)
        place[line] = found
        start, is_name = self._bytes.behind_name(place, len(name))
        end, is_plain = self._bytes.value_ends(start)
        return _Edit(start, end, is_set, texts), certain & is_name & is_plain

    def _lines_of(self, places: _Places) -> _Rows:
        """Return which lines some places are in."""
        line = np.searchsorted(self._at, places, side="right") - 1
        return np.bincount(line, minlength=len(self._lines)) > 0

    def _put_in_order(self) -> None:
        """Put edits into one order for all lines; a line that has another is not sure."""
        begin = self._at[:-1]
        # As the first line has them that is meant: others that do not are found out below.
        self._edits.sort(key=lambda edit: int((edit.start - begin)[edit.is_set.argmax()]))
        done = begin
        for number, (start, end, is_set, texts) in enumerate(self._edits):
            here, there = np.where(is_set, start, done), np.where(is_set, end, done)
            self.sure &= (done <= here) & (here <= there)
            self._edits[number] = _Edit(here, there, is_set, texts)
            done = there
        self.sure &= done <= self._at[1:]

    def put_together(self) -> tuple[pa.Array, pa.Array]:
        """Return the new lines, and their records."""
        count, width = len(self._lines), 2 * len(self._edits) + 1
        cuts = np.empty((count, width), np.int64)
        cuts[:, 0] = self._at[:-1]
        for number, edit in enumerate(self._edits):
            cuts[:, 2 * number + 1], cuts[:, 2 * number + 2] = edit.start, edit.end
        offsets = np.append(cuts.ravel(), self._at[-1]) + text_bytes.ends(self._lines)[0]
        parts = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            count * width,
            [None, pa.py_buffer(offsets), self._lines.buffers()[2]],
        )
        firsts = np.arange(count) * width
        whole: list[pa.Array | pa.Scalar] = []
        pieces = whole
        records = parts
        for number, edit in enumerate(self._edits):
            pieces.append(parts.take(pa.array(firsts + 2 * number)))
            if edit.texts is not None:
                there = edit.is_set.all()
                texts = edit.texts if there else pc.if_else(edit.is_set, edit.texts, _NOTHING)
                pieces.append(texts)
            elif pieces is whole:  # here the record begins
                pieces = []
            else:
                records = _joined(pieces)
                whole.append(records)
                pieces = whole
        whole.append(parts.take(pa.array(firsts + width - 1)))
        return _joined(whole), _joined([records, pa.scalar(b"\n", pa.large_binary())])


@dataclass
class _Text:
    """The bytes of some lines, and what stands in them.

    Attributes:
        data: The bytes.
    """

    data: _Bytes

    @cached_property
    def _backslashes(self) -> _Places:
        return np.flatnonzero(self.data == _BACKSLASH)

    @cached_property
    def _quotes(self) -> _Places:
        """The places of quotes that begin a string or end one."""
        quotes = np.flatnonzero(self.data == _QUOTE)
        slashes = self._backslashes
        if not len(slashes):
            return quotes
        behind = np.flatnonzero(self.data[quotes - 1] == _BACKSLASH)
        last = np.searchsorted(slashes, quotes[behind] - 1)
        begins = np.concatenate(([True], np.diff(slashes) != 1))
        first = np.maximum.accumulate(np.where(begins, np.arange(len(slashes)), 0))
        escaped = (last - first[last]) % 2 == 0  # of a row of them, the odd ones
        return np.delete(quotes, behind[escaped])

    @cached_property
    def _between(self) -> _Places:
        return np.diff(self._quotes)

    @property
    def escaped_names(self) -> _Places:
        """The ends of names with a backslash in them, and perhaps of some other texts."""
        if not len(self._backslashes):
            return self._backslashes
        quotes = self._quotes
        ends = np.unique(np.searchsorted(quotes, self._backslashes))
        behind = quotes[ends[ends < len(quotes)]] + 1
        found: _Places = behind[np.isin(self.data[behind], _BEHIND_NAME)]
        return found

    def places(self, quoted: bytes) -> _Places:
        """Return where a text in quotes stands, as a name or as a value."""
        found = self._quotes[:-1][self._between == len(quoted) - 1]
        same = self.data[found[:, None] + np.arange(len(quoted))]
        whole: _Places = found[(same == np.frombuffer(quoted, np.uint8)).all(axis=1)]
        return whole

    def stands_before(self, places: _Places, text: bytes) -> _Rows:
        """Tell where a text stands before places, or before one blank there."""
        at = places - (self.data[places - 1] == _SPACE) - len(text)
        found = self.data[np.maximum(at, 0)[:, None] + np.arange(len(text))]
        same: _Rows = (found == np.frombuffer(text, np.uint8)).all(axis=1) & (at >= 0)
        return same

    def behind_name(self, places: _Places, length: int) -> tuple[_Places, _Rows]:
        """Return where values begin whose quoted names are at places; and which are names."""
        colon = self._within(places + length)
        is_name = np.isin(self.data[places - 1], _BEFORE_NAME) & (self.data[colon] == _COLON)
        start = self._within(colon + 1)
        return self._within(start + (self.data[start] == _SPACE)), is_name

    def value_ends(self, starts: _Places) -> tuple[_Places, _Rows]:
        """Return where values end that begin at places; and which are surely whole values."""
        first = self.data[starts]
        ends, sure = starts.copy(), ~np.isin(first, _NOT_PLAIN)
        texts = np.flatnonzero(first == _QUOTE)
        if len(texts):
            opening = np.searchsorted(self._quotes, starts[texts])
            closing = np.minimum(opening + 1, len(self._quotes) - 1)
            ends[texts] = self._quotes[closing] + 1
        others = np.flatnonzero(first != _QUOTE)
        if len(others):
            behind = self.data[self._within(starts[others, None] + _LENGTHS)]
            stops = (behind == _COMMA) | (behind == _CLOSE)
            ends[others] += stops.argmax(axis=1)
            is_whole = stops.any(axis=1) & ~np.isin(self.data[ends[others] - 1], _WHITE)
            sure[others] &= is_whole
        return ends, sure & (starts < ends)

    def _within(self, places: _Places) -> _Places:
        return np.minimum(places, len(self.data) - 1)


def _joined(pieces: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, _NOTHING)
