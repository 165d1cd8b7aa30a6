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
_COLUMNS = [b'"%b"' % name.encode() for name in documents.OF_REJECTED]
NOT_PLAIN = rb"\\u00[01]"
"""A character that a rejected line has only in another encoding than UTF-8, or in a container."""


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


def in_base64(batch: bytes, before: int) -> Iterator[tuple[bytes, int]]:
    """Give the rejected lines that rows keep in Base64, as they came, and the rows' numbers.

    Args:
        batch: Rows of dead-letter tables, or any lines.
        before: How many lines came before them.
    """
    for found in _BASE64.finditer(batch):
        number = before + batch.count(b"\n", 0, found.start()) + 1
        yield decoded(found[1].replace(b"\\", b"")), number


def may_have_messages(batch: bytes) -> bool:
    """Tell whether some of these lines may be rows that keep a rejected line as a text."""
    return all(name in batch for name in _COLUMNS)


def messages_in(row: bytes) -> Iterator[bytes]:
    """Give the rejected lines that a row keeps as a text, as they came; nothing for other lines."""
    found, _ = documents.embedded(row.decode("utf-8", "replace"))
    for document in found:
        for members in (document, *documents.all_of(document, "record")):
            if isinstance(members, Members) and documents.keeps_rejected(members):
                for message in documents.all_of(members, documents.REFUSED):
                    if isinstance(message, str):
                        yield message.encode("utf-8", "surrogatepass")
