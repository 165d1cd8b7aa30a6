"""Dead-letter tables that may have rejected records of a table, and the lines that they keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format import names, refused_lines
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.erase import documents
from singerlake.ops.erase.documents import Members
from singerlake.ops.erase.parquet import decoded

_BASE64 = re.compile(rb'"message_base64\\*"\s*:\s*\\*"([A-Za-z0-9+/=\\]+)')
_MESSAGE, _DIGEST = '"message"', '"digest"'
"""Columns by which a row is recognised as a rejected line, as JSON has them."""


class DeadLetters:
    """The dead-letter tables of a table, by its name and by what other tables the lake has.

    Besides its own they are the tap's, and those whose stream has no table: a stream map may have
    written that stream to any table of the tap, and no log says to which.

    Args:
        table: The table whose rejected records are meant; it need not be there.
    """

    def __init__(self, lake: Lake, table: TableName) -> None:
        self._lake = lake
        self._table = table
        self._others: dict[TableName, bool] = {}

    def has(self, name: TableName) -> bool:
        """Tell whether a table is one of them."""
        if name.tap != self._table.tap or not name.stream.endswith(names.REJECTED):
            return False
        if name == self._table:
            return False
        stream = name.stream.removesuffix(names.REJECTED)
        if stream in ("", self._table.stream):
            return True
        if name not in self._others:
            self._others[name] = self._is_of_no_table(name, stream)
        return self._others[name]

    @cached_property
    def all(self) -> list[TableName]:
        """Those that the lake has, also if they were dropped."""
        return [name for name in self._lake.tables() if self.has(name)]

    def _is_of_no_table(self, name: TableName, stream: str) -> bool:
        try:
            self._lake.table(TableName(name.tap, stream)).snapshot()
        except NotFoundError:  # nor one that was dropped
            pass
        except SingerlakeError:
            return False
        else:
            return False
        try:
            schema = self._lake.table(name).snapshot(dropped=True).tap_schema
        except SingerlakeError:
            return True  # nobody knows that it has rows of its own
        return refused_lines.are_in(schema)


def lines_in(batch: bytes, before: int) -> Iterator[tuple[bytes, str, bytes]]:
    """Give the lines that rows of dead-letter tables keep, byte for byte as they came.

    Args:
        batch: Lines of such tables, or of anything.
        before: How many lines came before them.

    Yields:
        Each line; where it is, in words; and the row, unless nothing can be found in that because
        the line is in Base64.
    """
    for found in _BASE64.finditer(batch):
        number = before + batch.count(b"\n", 0, found.start()) + 1
        yield decoded(found[1].replace(b"\\", b"")), f"line {number:,}, in Base64", b""
    if not all(name.encode() in batch for name in (_MESSAGE, _DIGEST)):
        return
    for number, line in enumerate(batch.split(b"\n"), before + 1):
        text = line.decode("utf-8", "replace")
        if _MESSAGE in text and _DIGEST in text:
            for message in _messages(text):
                yield (
                    message.encode("utf-8", "surrogatepass"),
                    f"line {number:,}, as rejected",
                    line,
                )


def _messages(text: str) -> Iterator[str]:
    found, _ = documents.embedded(text)
    for document in found:
        for row in (document, *documents.all_of(document, "record")):
            if isinstance(row, Members) and "digest" in row:
                for message in documents.all_of(row, "message"):
                    if isinstance(message, str):
                        yield message
