"""What log entries and manifests have in common: a format number, and a hash of their own bytes.

From format 2 on such a file ends in a line of its own with its hash, the SHA-256 of all bytes
before that line, so that a byte which changed on the store is found whenever the file is read.
Members that nobody knows are refused there; in format 1 they are passed over, as they were.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.errors import DamagedError, NewerFormatError
from singerlake.version import FORMAT

if TYPE_CHECKING:  # late: it takes a twentieth of a plugin's start-up, for files of format 1
    from msgspec import inspect

PLAIN = 1
"""The format's number of files that have no hash; they are read as they were.

Release 0.1 wrote it, and no release wrote 2, 3 or 4: they are read as what is written now.
"""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, of another shape, or no UTF-8."""

_SEAL = b' "hash": "%b"\n}\n'
_SEAL_LINE = re.compile(rb' "hash": "([0-9a-f]{64})"\n\}\n')
_SEAL_BYTES = len(_SEAL % (b"0" * 64))
# Our own files say it first: a manifest of many megabytes is not gone through for it.
_FORMAT_FIRST = re.compile(rb'\s*\{\s*"format"\s*:\s*([0-9]{1,9})\s*[,}]')


class _FormatOnly(msgspec.Struct):
    format: int


_FORMAT = msgspec.json.Decoder(_FormatOnly)
_ANYTHING = msgspec.json.Decoder()


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def seal(data: bytes) -> tuple[bytes, str]:
    """Give a JSON object its hash as the last member.

    Args:
        data: The object with at least one member, spelled in any way.

    Returns:
        The file's bytes, and the hash.
    """
    body = data.rstrip()[:-1].rstrip() + b",\n"
    computed = digest(body)
    return body + _SEAL % computed.encode(), computed


def check_seal(data: bytes, where: str) -> str:
    """Hold a sealed file against its hash, and give that.

    Raises:
        DamagedError: There is none, or it is not that of the bytes before it.
    """
    line = _SEAL_LINE.fullmatch(data[-_SEAL_BYTES:])
    if line is None:
        raise DamagedError(f"{where} is damaged: it does not end in the hash of its own bytes")
    recorded = line[1].decode()
    # A view: a large manifest is not copied for it.
    computed = hashlib.sha256(memoryview(data)[:-_SEAL_BYTES]).hexdigest()
    if computed != recorded:
        raise DamagedError(f"{where} is damaged: its bytes do not have the hash in it")
    return recorded


def check_format(data: bytes, where: str, most: int | None = None) -> int:
    """Return the format number of a file; what a newer release wrote is refused.

    Args:
        data: The file's bytes.
        where: What to call the place in an error.
        most: The greatest number of this kind of file that this release knows; by default that
            of a table's.

    Raises:
        NewerFormatError: The number is above this release's.
        DamagedError: There is no such number, or the bytes do not have the hash that they say.
    """
    most = FORMAT if most is None else most
    first = _FORMAT_FIRST.match(data)
    try:
        number = int(first[1]) if first else _FORMAT.decode(data).format
    except UNREADABLE as error:
        raise DamagedError(f"{where} cannot be read: {error}") from error
    if number > most:
        if _SEAL_LINE.fullmatch(data[-_SEAL_BYTES:]):
            check_seal(data, where)  # a bit that changed makes one number of another
        raise NewerFormatError(
            f"{where} has format {number}, and this Singerlake reads up to {most}: "
            "upgrade it (pip install --upgrade singerlake)"
        )
    if number < 1:
        raise DamagedError(f"{where} cannot be read: there is no format {number}")
    return number


class Reader:
    """Decodes one kind of sealed file, of every format number there was.

    Made once, when its module is loaded: msgspec does not stand two threads that meet a type
    for the first time at once.

    Args:
        kind: A struct that refuses members it does not know, with a ``format``.
    """

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._kind = kind

    @cached_property
    def _type(self) -> inspect.Type:
        """What members there are; unlike a decoder's, these may be looked up by two threads."""
        from msgspec import inspect

        return inspect.type_info(self._kind)

    def read(self, data: bytes, number: int, where: str) -> Any:
        """Decode a file of a format number that was checked before.

        Raises:
            DamagedError: It is cut, of another shape, or has a member that nobody knows.
        """
        try:
            content = self._decoder.decode(data)
        except UNREADABLE as error:
            if number > PLAIN:
                raise DamagedError(f"{where} cannot be read: {error}") from error
            content = self._read_what_is_known(data, where)
        if content.format != number:
            raise DamagedError(f"{where} cannot be read: it contains its format twice")
        return content

    def read_sealed(self, data: bytes, where: str) -> Any:
        """Decode a file of a kind that there is only with a seal.

        Args:
            data: The object's bytes.
            where: What to call the place in an error.

        Raises:
            DamagedError: It is cut, altered, of another shape, or of the format without seals.
            NewerFormatError: A newer release wrote it.
        """
        number = check_format(data, where)
        if number == PLAIN:
            raise DamagedError(f"{where} cannot be read: in format {PLAIN} there is no such file")
        check_seal(data, where)
        return self.read(data, number, where)

    def _read_what_is_known(self, data: bytes, where: str) -> Any:
        try:
            known = _known(_ANYTHING.decode(data), self._type)
            return self._decoder.decode(msgspec.json.encode(known))
        except UNREADABLE as error:
            raise DamagedError(f"{where} cannot be read: {error}") from error


def _known(value: Any, kind: inspect.Type) -> Any:
    """A decoded value without the members that its type does not have."""
    from msgspec import inspect

    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            value = _known(value, one)
    elif isinstance(kind, inspect.StructType) and isinstance(value, list) and kind.array_like:
        pairs = zip(value, kind.fields, strict=False)
        return [_known(item, field.type) for item, field in pairs]
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        types = {field.encode_name: field.type for field in kind.fields}
        return {name: _known(item, types[name]) for name, item in value.items() if name in types}
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [_known(item, kind.item_type) for item in value]
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {name: _known(item, kind.value_type) for name, item in value.items()}
    return value
