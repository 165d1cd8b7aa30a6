"""The text of a version that people sign, and signatures in OpenSSH's format (PROTOCOL.sshsig)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator

import msgspec

from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.version_notes import Signed

NAMESPACE = "singerlake"
"""What signatures are for: OpenSSH takes none of another namespace."""
_MAGIC = b"SSHSIG"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_LINE = 70


def content_hash(salt: str, fingerprint: str, record_fingerprint: str) -> str:
    """Return the hash that stands for a version's fingerprints in a signed text.

    Without the salt it confirms no guess at them, so it may stay when rows are erased.
    """
    return hashlib.sha256(f"{salt}\n{fingerprint}\n{record_fingerprint}\n".encode()).hexdigest()


def signed_text(table: TableName, version: FrozenVersion, signed: Signed) -> bytes:
    """Return the text of a version that a signature covers."""
    return "".join(f"{line}\n" for line in _lines(table, version, signed)).encode()


def covers(version: FrozenVersion, signed: Signed) -> bool:
    """Tell whether a signature is of what a version is now; if not, rows were erased since."""
    content = content_hash(signed.salt, version.fingerprint, version.record_fingerprint)
    return bool(signed.salt) and (signed.rows, signed.content) == (version.rows, content)


def _lines(table: TableName, version: FrozenVersion, signed: Signed) -> Iterator[str]:
    yield "singerlake-version-1"
    yield f"table {_quoted(str(table))}"
    yield f"version {version.number}"
    if version.label is not None:
        yield f"label {_quoted(version.label)}"
    yield f"transaction {version.transaction}"
    yield f"schema {version.schema_hash}"
    yield f"types {version.types}"
    for erased in version.erased:
        if erased.transaction <= signed.head:
            yield f"erased {erased.transaction} {erased.rows_before} {erased.rows}"
    yield f"rows {signed.rows}"
    yield f"content {signed.content}"
    yield f"head {signed.head} {signed.chain}"
    yield f"time {signed.time}"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def armored(signature: str) -> str:
    """Return a signature as OpenSSH writes it to files."""
    lines = [signature[at : at + _LINE] for at in range(0, len(signature), _LINE)]
    return "\n".join((_BEGIN, *lines, _END)) + "\n"


def unarmored(text: str) -> str:
    """Return the Base64 of a signature that OpenSSH wrote.

    Raises:
        ValueError: It is not one.
    """
    lines = text.split()
    begin, end = _BEGIN.split(), _END.split()
    if lines[: len(begin)] != begin or lines[-len(end) :] != end:
        raise ValueError("it is not a signature of OpenSSH")
    return "".join(lines[len(begin) : -len(end)])


def signing_key(signature: str) -> str:
    """Return the fingerprint of the key that made a signature, as ``ssh-keygen -l`` shows it.

    Raises:
        ValueError: It is not a signature, or is of another namespace.
    """
    try:
        data = base64.b64decode(signature, validate=True)
        if data[:6] != _MAGIC or struct.unpack_from(">I", data, 6) != (1,):
            raise ValueError("it is not a signature of OpenSSH")
        key, at = _string(data, 10)
        namespace, _ = _string(data, at)
    except (binascii.Error, struct.error) as error:
        raise ValueError("it is not a signature of OpenSSH") from error
    if namespace != NAMESPACE.encode():
        raise ValueError(f"its namespace is not {NAMESPACE}")
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def key_of(signature: str) -> str:
    """Return the fingerprint of the key that made a signature; a word if it is not readable."""
    try:
        return signing_key(signature)
    except ValueError:
        return "unreadable"


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", data, at)
    end = at + 4 + length
    if end > len(data):
        raise struct.error("it is cut")
    return data[at + 4 : end], end
