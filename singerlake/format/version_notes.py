"""Log entries about versions after they were frozen: a deletion, or an erasure of rows.

Of an erasure it is said who did it, why, and what became of each version; never which rows went: no
key, and no hash of a key or of a row, for whoever can guess a row could confirm the guess by that.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from singerlake.format.names import POINTER_NAME

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""What is counted or numbered; JSON readers of every language know it exactly."""


class VersionDeletion(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The deletion of a table version, as its log entry records it.

    Attributes:
        version: Its number.
        reason: Why it went.
        by: Who deleted it.
    """

    version: Count
    reason: str
    by: str = ""


class Deleted(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The deletion of a table version, kept with the facts of the version.

    Attributes:
        transaction: The one that deleted it. Until the history floor has come to it, the
            version's state is still protected.
        time: When, ISO 8601 in UTC.
        reason: Why.
        by: Who.
    """

    transaction: Count
    time: str
    reason: str
    by: str = ""


class PointerMove(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The move of a pointer, as a log entry contains it.

    Attributes:
        name: The pointer's name, without the ``@``.
        version: The number of the version that it names from then on; 0 removes the pointer.
        by: Who moved it.
    """

    name: Annotated[str, msgspec.Meta(pattern=f"^{POINTER_NAME}$")]
    version: Count
    by: str = ""


class PointerNote(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The move of a pointer, as it is kept with the version that the pointer came to, or left.

    Attributes:
        name: The pointer's name, without the ``@``.
        transaction: The transaction that moved it.
        time: When, ISO 8601 in UTC.
        by: Who moved it.
        removed: Whether the pointer was removed; the version is the last that it named.
    """

    name: str
    transaction: Count
    time: str
    by: str = ""
    removed: bool = False


class Signed(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """What a signature of a version covers, beside the facts of the version, and the signature.

    Attributes:
        rows: Rows that the version had.
        head: The last transaction of the log that was signed.
        chain: The chain id of that transaction.
        time: When, ISO 8601 in UTC, by the signer's clock.
        content: SHA-256 over the salt and the fingerprints that the version had.
        salt: 64 random hexadecimal digits; empty once rows of the version were erased, so that the
            hash no longer confirms a guess at them.
        signature: In OpenSSH's format (PROTOCOL.sshsig), in Base64 without armor.
        by: The user who ran the command. The signature does not cover it.
    """

    rows: Count
    head: Count
    chain: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    time: str
    content: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    salt: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    signature: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/]{1,20000}={0,2}$")]
    by: str = ""


class VersionSignature(Signed, frozen=True, omit_defaults=True, kw_only=True):
    """The signature of a version, as a log entry contains it.

    Attributes:
        version: The version's number.
    """

    version: Count


class SignatureNote(Signed, frozen=True, omit_defaults=True, kw_only=True):
    """The signature of a version, as it is kept with the version.

    Attributes:
        transaction: The transaction that added it.
    """

    transaction: Count


class Notice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A notice of erased keys to readers that are behind, with its place and its end.

    Attributes:
        id: Names the object that has them, with 32 random hexadecimal digits.
        until: When that is over, ISO 8601 in UTC: from then on nobody reads it, and it is deleted.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    until: str


class BlockedKeys(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The list of blocked keys, of which the log contains none.

    Attributes:
        keys: How many; 0 for none any more.
        id: Names the object that has a keyed hash of each, with 32 random hexadecimal digits; empty
            where there are none.
        columns: The key's columns, by the names that records have for them.
        types: The rules of types by which the keys became texts: before 3, a number's text was that
            of the nearest double, and an instant's had six digits behind the second.
    """

    keys: Count
    id: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")] = ""
    columns: list[str] = []
    types: Count = 2


class Erasure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An erasure of rows, as an ``erase-start`` and its ``erase`` record it.

    Attributes:
        reason: Why.
        by: Who did it.
        keys: How many rows, each with all that it ever was; lines, in a table without a key.
        lines: How many RECORD lines go for that.
        notice: Where readers that are behind are told of it; only with ``erase``, and None where
            nobody is to be told.
    """

    reason: str
    by: str = ""
    keys: Count = 0
    lines: Count = 0
    notice: Notice | None = None


class ErasedVersion(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """A table version after an erasure: as it was, less exactly the erased rows.

    That this is so, the writer has proved before it committed.

    Attributes:
        version: Its number.
        rows_before: Rows it had.
        rows: Rows it has.
        fingerprint: Over these, in place of what it had.
        record_fingerprint: The same over their records; empty beside a fingerprint of 32 digits.
        lanes: What these two are the hashes of, in Base64.
    """

    version: Count
    rows_before: Count
    rows: Count
    fingerprint: str
    record_fingerprint: str = ""
    lanes: dict[str, str] = {}


class VersionErasure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The erasure of rows of a table version, kept with what the version is now.

    Attributes:
        transaction: The ``erase``; fingerprints that were told before it no longer hold.
        time: When, ISO 8601 in UTC.
        rows_before: Rows the version had until then.
        rows: Rows it had after.
        reason: Why.
        by: Who did it.
    """

    transaction: Count
    time: str
    rows_before: Count
    rows: Count
    reason: str = ""
    by: str = ""
