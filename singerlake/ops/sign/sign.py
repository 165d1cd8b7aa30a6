"""Sign a version: one more signature of what it contains, as a transaction of the table's log.

Several people may sign the same version. A version whose rows were erased can be signed again: the
new signature covers what is left, and states how many rows each erasure removed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.signed_text import content_hash, covers, key_of, signed_text
from singerlake.format.version_notes import SignatureNote, VersionSignature
from singerlake.log import conflicts
from singerlake.log.commit import chain_id, commit, current_user, draft_entry, new_writer_id
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.storage.base import Store


class Signer(Protocol):
    """What signs a text."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its key: ``SHA256:…``."""

    def sign(self, text: bytes) -> str:
        """Return a signature in OpenSSH's format, in Base64 without armor."""


TRIAL = b"singerlake-trial-1\n"
"""A text that no version has, by which a signer shows that it can sign."""


@dataclass(frozen=True)
class SignedVersion:
    """A version with a signature of a key.

    Attributes:
        version: The version.
        signature: The signature.
        new: Whether it was made now.
    """

    version: FrozenVersion
    signature: SignatureNote
    new: bool


def sign(store: Store, head: TableState, name: str, signer: Signer) -> SignedVersion:
    """Sign a version. If the key has signed what it is now, that signature is returned.

    Args:
        name: The version's number or label, or a pointer.

    Raises:
        NotFoundError: There is no such version.
        UsageError: The version is a transaction, or has no fingerprint that resists forgery, or
            the table has lost its log.
        ConflictError: Rows were erased, or the version was deleted, in the meantime.
        SingerlakeError: The signer failed; nothing was changed.
    """
    version = signable(head, name)
    if (there := signature_of(version, signer)) is not None:
        return SignedVersion(version, there, new=False)
    made = _made(head, chain_id(store, head), version, signer)

    def draft(present: TableState) -> Entry:
        conflicts.check_version_there(present, version.number)
        return draft_entry(present.table, Operation.SIGN, writer=new_writer_id(), signature=made)

    after = commit(store, head, draft)
    update_checkpoint(store, after)
    signed = after.version(str(version.number))
    return SignedVersion(signed, signed.signed[-1], new=True)


def signable(head: TableState, name: str) -> FrozenVersion:
    """Return a version that can be signed.

    Raises:
        NotFoundError: There is no such version.
        UsageError: It cannot be.
    """
    head.check_log()
    version, _ = head.named(name)
    if version is None:
        raise UsageError(
            f"{name} is a transaction: freeze it first, with: singerlake freeze {head.table} "
            f"--transaction {name[1:]}"
        )
    if version.only_against_accident:
        raise UsageError(
            f"version {version.number} of {head.table} has only a fingerprint against accidents: "
            f"freeze it again, and sign the new version: singerlake freeze {head.table} "
            f"--transaction {version.transaction} --again"
        )
    return version


def check_signer(signer: Signer) -> None:
    """Let a signer sign a text whose signature is not kept.

    Raises:
        SingerlakeError: It cannot.
    """
    signer.sign(TRIAL)


def signature_of(version: FrozenVersion, signer: Signer) -> SignatureNote | None:
    """Return a signature by a signer's key of what a version is now; None if there is none."""
    for note in version.signed:
        if covers(version, note) and key_of(note.signature) == signer.fingerprint:
            return note
    return None


def _made(head: TableState, chain: str, version: FrozenVersion, signer: Signer) -> VersionSignature:
    salt = secrets.token_hex(32)
    signed = VersionSignature(
        version=version.number,
        rows=version.rows,
        head=head.number,
        chain=chain,
        time=times.iso(times.now()),
        content=content_hash(salt, version.fingerprint, version.record_fingerprint),
        salt=salt,
        signature="",
        by=current_user(),
    )
    return structs.replace(signed, signature=signer.sign(signed_text(head.table, version, signed)))
