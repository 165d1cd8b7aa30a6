"""The head file: what of a manifest a writer needs that only adds rows. It can be made again."""

from __future__ import annotations

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import sealed
from singerlake.format.log import FileList, SchemaEntry
from singerlake.format.metadata import TransactionSummary
from singerlake.format.overlay import Overlay
from singerlake.format.version_notes import Count


class HeadFile(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """``head.json``: a table as of one transaction, without what came before it.

    It has no blocks and no versions, so that it stays small however long the log, and so that it
    tells nothing of rows that are erased.

    Attributes:
        format: That of the entry it is folded up to; never that of entries without a hash.
        last: The transaction it is folded up to.
        manifest: The transaction that the manifest was folded up to by then.
        due: How many transactions and blocks there must ever have been for the manifest to be
            written again.
        schemas: As in the manifest.
        floor: As in the manifest.
        pending_deletes: As in the manifest; ``doomed`` on disk.
        pending_lists: As in the manifest; ``doomed_lists`` on disk.
        overlays: As in the manifest.
        drops: The times in which the table was not there: the transaction that dropped it, the
            one that ended that, and whether this brought it back.
        rules: The states that were frozen under earlier rules of types: last block, schema, and
            the number of the rules.
        erased: The last transaction that erased rows; 0 where none did.
        chain: The chain id of the entry it is folded up to.
        hash: As in the manifest.
    """

    format: int
    tap: str
    stream: str
    last: TransactionSummary
    manifest: Count
    due: Count = 0
    schemas: dict[str, SchemaEntry] = {}
    floor: Count = 0
    pending_deletes: dict[str, Count] = msgspec.field(name="doomed", default={})
    pending_lists: list[tuple[Count, FileList]] = msgspec.field(name="doomed_lists", default=[])
    overlays: dict[int, Overlay] = {}
    drops: list[tuple[Count, Count, bool]] = []
    rules: list[tuple[Count, str, Count]] = []
    erased: Count = 0
    chain: str = ""
    hash: str = ""


_HEAD = sealed.Reader(HeadFile)


def decode(data: bytes, where: str) -> HeadFile:
    """Read a head file.

    Args:
        data: The object's bytes.
        where: What to call the place in an error.

    Raises:
        DamagedError: It is cut, of another shape, or not what its own hash says.
        NewerFormatError: A newer release wrote it.
    """
    head: HeadFile = _HEAD.read_sealed(data, where)
    if not head.chain or head.last.number < 1:
        raise DamagedError(f"{where} cannot be read: it does not contain its last log entry")
    return head


def encode(head: HeadFile) -> bytes:
    """Spell a head file: readable JSON, indented, its hash in a line of its own at the end."""
    return sealed.seal(msgspec.json.format(msgspec.json.encode(head), indent=1) + b"\n")[0]
