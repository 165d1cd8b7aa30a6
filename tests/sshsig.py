"""Signatures of OpenSSH (PROTOCOL.sshsig) by ed25519 keys, without OpenSSH and without the project.

Tests sign with it where they start no process, and the independent reader verifies with it.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KIND = b"ssh-ed25519"
NAMESPACE = b"singerlake"


def packed(*parts: bytes) -> bytes:
    """Strings as SSH writes them: each after its length."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    """The strings of which SSH wrote some data."""
    parts = []
    while data:
        (length,) = struct.unpack_from(">I", data)
        assert len(data) >= 4 + length
        parts.append(data[4 : 4 + length])
        data = data[4 + length :]
    return parts


def covered(text: bytes, namespace: bytes, algorithm: bytes) -> bytes:
    """What the key signs."""
    digest = hashlib.new(algorithm.decode(), text).digest()
    return b"SSHSIG" + packed(namespace, b"", algorithm, digest)


@dataclass(frozen=True)
class Key:
    """A new key, as ``singerlake.ops.sign`` takes a signer."""

    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def blob(self) -> bytes:
        """The public key, as SSH writes it."""
        raw = self.private.public_key().public_bytes_raw()
        return packed(KIND, raw)

    @property
    def fingerprint(self) -> str:
        """As ``ssh-keygen -l`` shows it."""
        return fingerprint(self.blob)

    @property
    def line(self) -> str:
        """The public key in a line of a file."""
        return f"{KIND.decode()} {base64.b64encode(self.blob).decode()}"

    def file(self) -> bytes:
        """The private key, as OpenSSH reads it from a file."""
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )

    def sign(self, text: bytes, namespace: bytes = NAMESPACE) -> str:
        """Sign a text, in Base64 without armor."""
        signature = self.private.sign(covered(text, namespace, b"sha256"))
        rest = packed(self.blob, namespace, b"", b"sha256", packed(KIND, signature))
        return base64.b64encode(b"SSHSIG" + struct.pack(">I", 1) + rest).decode()


def fingerprint(blob: bytes) -> str:
    """The fingerprint of a public key."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def signed_with(text: bytes, signature: str) -> str | None:
    """The fingerprint of the key that signed a text; None if it signed another.

    Keys of other kinds than ed25519 are for OpenSSH to verify.
    """
    data = base64.b64decode(signature, validate=True)
    assert data[:10] == b"SSHSIG" + struct.pack(">I", 1)
    blob, namespace, reserved, algorithm, made = unpacked(data[10:])
    assert (namespace, reserved) == (NAMESPACE, b"")
    kind, key = unpacked(blob)
    assert kind == KIND
    try:
        public = Ed25519PublicKey.from_public_bytes(key)
        public.verify(unpacked(made)[1], covered(text, namespace, algorithm))
    except InvalidSignature:
        return None
    return fingerprint(blob)


@dataclass(frozen=True)
class Allowed:
    """Signers by their keys, as ``singerlake.ops.verify`` takes them."""

    keys: dict[str, Key]

    def signer(self, text: bytes, signature: str, time: str) -> tuple[str | None, str]:
        """Return who signed a text, and why nobody did."""
        assert time.endswith("Z")
        found = signed_with(text, signature)
        names = (name for name, key in self.keys.items() if key.fingerprint == found)
        return next(names, None), "another key"
