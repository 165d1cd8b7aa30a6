"""The key with which a command signs: it may ask for a passphrase on the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from singerlake_cli import live_line

if TYPE_CHECKING:
    from singerlake.ops.sign.sign import Signer


@dataclass(frozen=True)
class ShownSigner:
    """A signer whose questions no live line overwrites."""

    signer: Signer

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its key."""
        return self.signer.fingerprint

    def sign(self, text: bytes) -> str:
        """Sign a text."""
        with live_line.aside():
            return self.signer.sign(text)


def signer_of(key: Path | None) -> ShownSigner | None:
    """Return the signer of a key's file; None if no key is named.

    Raises:
        UsageError: It is not a key.
        RuntimeMissingError: OpenSSH is not installed.
    """
    if key is None:
        return None
    from singerlake.ops.sign.openssh import SigningKey  # late: few commands sign

    return ShownSigner(SigningKey.of(key))
