"""How people write what a projection is made of: columns, orders, partitions, sizes.

Errors say what is wrong with the text. Where it stands is for the caller to say.
"""

from __future__ import annotations

import re

from singerlake.errors import UsageError
from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.format.sql_tables import Reference, reference, table_references
from singerlake.format.sql_tokens import Token, tokens
from singerlake.nearest import offer
from singerlake.publish.projection import OrderKey, PartitionKey, Transform

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
"""What a projection may be called: it becomes part of keys, options and messages."""
MAX_BUCKETS = 1_000_000

_SIZE = re.compile(r"([1-9][0-9]{0,14}) ?(|[kMGT]i?)B?")
_POWERS = ("", "k", "M", "G", "T")


def name(text: str) -> str:
    """Check a projection's name.

    Raises:
        UsageError: It has characters that are not for names.
    """
    if not NAME.fullmatch(text):
        raise UsageError(
            f"{text[:80]!r} is not a valid projection name: use letters, digits, dashes, dots and "
            "underscores, at most 100"
        )
    return text


def stage(text: str) -> TableName:
    """Read the name of a staging table.

    Raises:
        UsageError: It is none, or that of a version.
    """
    ref = names.parse_ref(text)
    if ref.version is not None:
        raise UsageError(f"{text!r} is a version: name a staging table without one")
    names.tap_folder(ref.table.tap), names.encode(ref.table.stream)  # can both be kept
    return ref.table


def select_all(text: str) -> str:
    """Give the SQL that reads all of a table, named as in SQL or as on the command line.

    Raises:
        UsageError: It is no table.
    """
    try:
        named = reference(text)
    except UsageError:
        named = Reference(())
    if len(named.parts) < 2:  # noqa: PLR2004
        ref = names.parse_ref(text)
        version = () if ref.version is None else (ref.version,)
        named = Reference((ref.table.tap, ref.table.stream, *version))
    return select_from(named)


def select_from(table: Reference) -> str:
    """Give the SQL that reads all of a table."""
    return f"select * from {table}"  # noqa: S608  # its parts are quoted


def sources(sql: str) -> tuple[str, ...]:
    """Find the tables that a query reads, for ``Projection.sources``.

    Raises:
        UsageError: It reads none, or one that is no table of a lake.
    """
    found = table_references(sql)
    if not found:
        raise UsageError("the SQL reads no table: a projection needs tables of the lake")
    for one in found:
        if len(one.parts) == 1:
            raise UsageError(f"{one} is not a table: write it as tap.stream")
    return tuple(str(one) for one in found)


def columns(text: str) -> tuple[str, ...]:
    """Read columns that are separated by commas; one with a comma in it is in backticks.

    Raises:
        UsageError: One is empty or there twice.
    """
    return unique([_column(piece, text) for piece in _pieces(text)])


def order(text: str) -> tuple[OrderKey, ...]:
    """Read ``ordered_at desc, id``.

    Raises:
        UsageError: It is no order.
    """
    keys = [_order_key(piece, text) for piece in _pieces(text)]
    unique([key.column for key in keys])
    return tuple(keys)


def partitions(text: str) -> tuple[PartitionKey, ...]:
    """Read ``country, month(ordered_at), bucket(16, id)``.

    Raises:
        UsageError: It is none, or has a transform that is not known.
    """
    keys = [_partition_key(piece, text) for piece in _pieces(text)]
    unique([str(key) for key in keys])
    return tuple(keys)


def size(text: str) -> int:
    """Read ``128MB`` or ``128 MiB`` as bytes.

    Raises:
        UsageError: It is written otherwise.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text[:80]!r} is not a valid size: use a number and a unit, for example 128MB"
        )
    step = 1024 if match[2].endswith("i") else 1000
    return int(match[1]) * int(step ** _POWERS.index(match[2][:1]))


def unique(texts: list[str]) -> tuple[str, ...]:
    """Make sure that none is there twice.

    Raises:
        UsageError: One is.
    """
    for index, text in enumerate(texts):
        if text in texts[:index]:
            raise UsageError(f"{text!r} occurs twice")
    return tuple(texts)


def _pieces(text: str) -> list[list[Token]]:
    """The tokens between commas; not between those in brackets."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _column(piece: list[Token], text: str) -> str:
    if not piece:
        raise UsageError(f"{text!r} lacks the name of a column")
    if len(piece) == 1 and piece[0].kind == "quoted":
        return str(piece[0].name)
    return text[piece[0].start : piece[-1].end]


def _order_key(piece: list[Token], text: str) -> OrderKey:
    words = [token.text.lower() if token.kind == "word" else "" for token in piece]
    if "nulls" in words[1:]:
        raise UsageError(f"{text!r}: nulls come last in both directions; leave that out")
    if len(piece) > 1 and words[-1] in ("asc", "desc"):
        return OrderKey(_column(piece[:-1], text), words[-1] == "desc")
    return OrderKey(_column(piece, text))


def _partition_key(piece: list[Token], text: str) -> PartitionKey:
    is_call = len(piece) > 2 and piece[0].kind == "word" and piece[1].text == "("  # noqa: PLR2004
    if not is_call or piece[-1].text != ")":
        return PartitionKey(_column(piece, text))
    known = [str(one) for one in Transform]
    word = piece[0].text.lower()
    if word not in known:
        raise UsageError(f"there is no transform {piece[0].text!r}: {offer(word, known)}")
    transform, inside = Transform(word), piece[2:-1]
    if transform is not Transform.BUCKET:
        return PartitionKey(_column(inside, text), transform)
    count = inside[0].text if inside and inside[0].kind == "number" else ""
    comma = len(inside) > 2 and inside[1].text == ","  # noqa: PLR2004
    if not comma or not count.isdecimal() or not 0 < int(count) <= MAX_BUCKETS:
        raise UsageError(f"{text!r}: write buckets with their number first, bucket(16, id)")
    return PartitionKey(_column(inside[2:], text), transform, int(count))
