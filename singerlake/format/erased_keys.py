"""Objects beside a table's log that know keys of erased rows: the log itself names none of these.

A *notice* has the keys themselves, for readers that are behind, and only for a time. A *list of
blocked keys* has a keyed hash of each, with the secret that it takes, so that no row comes with one
again: who can read the list can confirm a guess at a key, and not more.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.errors import DamagedError

NOTICES, BLOCKED = "erased/notices/", "erased/blocked/"
"""Where they lie, within the table's folder."""
MOST_BYTES = 1 << 26
"""Bytes of their lines, at most: nobody inflates more."""

_NOTICE = re.compile(r"erased/notices/[0-9a-f]{32}\.gz")
_BLOCKED = re.compile(r"erased/blocked/[0-9a-f]{32}\.gz")
_HASH = re.compile(rb"[0-9a-f]{64}")
_KEY = msgspec.json.Decoder(dict[str, msgspec.Raw])


def new_id() -> str:
    """Give an object a name that nobody has had, and that says nothing."""
    return secrets.token_hex(16)


def notice(unique: str) -> str:
    """Return a notice's path within the table's folder."""
    return f"{NOTICES}{unique}.gz"


def is_notice(path: str) -> bool:
    """Whether a path within a table's folder is one of a notice."""
    return _NOTICE.fullmatch(path) is not None


def blocked(unique: str) -> str:
    """Return the path of a list of blocked keys within the table's folder."""
    return f"{BLOCKED}{unique}.gz"


def is_blocked(path: str) -> bool:
    """Whether a path within a table's folder is one of a list of blocked keys."""
    return _BLOCKED.fullmatch(path) is not None


@dataclass(frozen=True)
class KeyHashes:
    """Keyed hashes of keys.

    Attributes:
        secret: What the hashes take: 32 random bytes, the table's alone.
        hashes: They.
        rounded: Whether some may be of keys as their columns had rounded them.
    """

    secret: bytes
    hashes: frozenset[bytes] = frozenset()
    rounded: bool = False

    @classmethod
    def new(cls) -> KeyHashes:
        """Begin a list with a secret of its own."""
        return cls(secrets.token_bytes(32))

    def hash_of(self, key: str) -> bytes:
        """Return the hash of a key, by its text."""
        return self._hashed([key])[0]

    def has(self, keys: Iterable[str | None]) -> list[bool]:
        """Tell which keys are among them, by their texts; no key is not."""
        listed = [*keys]
        found = iter(self._hashed(key for key in listed if key is not None))
        return [key is not None and next(found) in self.hashes for key in listed]

    def _hashed(self, keys: Iterable[str]) -> list[bytes]:
        keyed = hashlib.blake2b(key=self.secret, digest_size=32)
        hashes = []
        for key in keys:
            one = keyed.copy()  # in half the time of keying each
            one.update(key.encode("utf-8", "surrogatepass"))
            hashes.append(one.digest())
        return hashes

    def encode(self) -> bytes:
        """Pack them: the secret, then the hashes in order, one a line."""
        lines = [one.hex() for one in (self.secret, *sorted(self.hashes))]
        return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)

    @classmethod
    def decode(cls, data: bytes, count: int, where: str) -> KeyHashes:
        """Unpack them.

        Args:
            data: What :meth:`encode` gave.
            count: How many there are, as the log says.
            where: What to call them in an error.

        Raises:
            DamagedError: They are not what was written.
        """
        lines = _lines(data, where)
        if not all(_HASH.fullmatch(line) for line in lines) or len(lines) != count + 1:
            raise DamagedError(
                f"{where} cannot be read: it does not have the {count:,} keys of the log"
            )
        secret, *hashes = (bytes.fromhex(line.decode()) for line in lines)
        return cls(secret, frozenset(hashes))


def encode_notice(lines: bytes) -> bytes:
    """Pack the keys of a notice.

    Args:
        lines: Each a JSON object with the members of a key, ended by a newline.
    """
    return gzip.compress(lines, mtime=0)


def decode_notice(data: bytes, where: str) -> Sequence[Mapping[str, msgspec.Raw]]:
    """Read the keys of a notice.

    Args:
        data: The object's bytes.
        where: What to call it in an error.

    Raises:
        DamagedError: They are not what was written.
    """
    try:
        return [_KEY.decode(line) for line in _lines(data, where)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{where} cannot be read: {error}") from error


def _lines(data: bytes, where: str) -> list[bytes]:
    inflate = zlib.decompressobj(31)
    try:
        text = inflate.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise DamagedError(f"{where} cannot be read: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise DamagedError(f"{where} is cut off, or larger than it can be")
    return text.splitlines()
