"""The contents of log entries after an erasure of rows.

Who has a fingerprint of before an erasure, and the rows that were left, can confirm a guess at an
erased row: the two differ by exactly that row. So can who has the checksum of a block that had the
row. So the entries before an ``erase`` are rewritten without them, each under the chain id that it
had, and each names the ``erase-start`` that allows it. The chain id is a hash of what the entry
was: its salt goes too, so that nobody can build that again from a guess.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import structs

from singerlake.errors import DamagedError
from singerlake.format.lake_log import LakeErasure, LakeTable, LakeVersion, fingerprint
from singerlake.format.log import FREEZES_ITSELF, Block, Entry, Operation
from singerlake.format.metadata import Manifest
from singerlake.format.names import TableName
from singerlake.format.version_notes import ErasedVersion
from singerlake.log.conflicts import MOVES_BLOCKS
from singerlake.log.table_state import TableState
from singerlake.version import FORMAT

_MAY_TELL = frozenset(
    {Operation.FREEZE, Operation.SIGN, Operation.ERASE, *FREEZES_ITSELF, *MOVES_BLOCKS}
)
"""Operations whose entries may say what a version was, or where a block of another's lies."""
_KNOWN = frozenset(map(str, Operation))


class _ErasureResult(NamedTuple):
    """The result of an erasure for one version or block: by whom, allowed by what, and what."""

    erase: int
    announced: int
    version: ErasedVersion | None = None
    crc: int | None = None


@dataclass(frozen=True)
class Erasures:
    """The results of all erasures for a table's versions and blocks, by the last word on each.

    Attributes:
        last: The last ``erase``; 0 where there was none.
        versions: What became of versions, by number.
        blocks: What became of blocks, by number.
        removed: Ranges of blocks that went as a whole.
        announced: The ``erase-start`` of the last one. What was rewritten for a later one is left
            alone: whoever knows of that one has said more than these tell.
        is_start: Tells whether the log has an ``erase-start`` of a number, by reading it: a lake
            version that was copied may name one of the log that it comes from.
    """

    table: TableName
    last: int
    versions: Mapping[int, _ErasureResult]
    blocks: Mapping[int, _ErasureResult]
    removed: Sequence[tuple[int, int, _ErasureResult]]
    announced: int
    is_start: Callable[[int], bool]

    @classmethod
    def of(
        cls,
        head: TableState,
        erases: Iterable[Entry],
        is_start: Callable[[int], bool] = lambda _: True,
    ) -> Erasures:
        """Gather what ``erase`` entries say.

        Args:
            erases: All of its ``erase`` entries, in order.
            is_start: As above; not needed where no lake version is looked at.

        Raises:
            DamagedError: One was not announced.
        """
        versions: dict[int, _ErasureResult] = {}
        blocks: dict[int, _ErasureResult] = {}
        removed: list[tuple[int, int, _ErasureResult]] = []
        last = announced = 0
        for entry in erases:
            last, announced = entry.number, _announced(head, entry.number)
            for one in entry.erased:
                versions[one.version] = _ErasureResult(last, announced, version=one)
            for block in entry.moved:
                blocks[block.number] = _ErasureResult(last, announced, crc=block.crc)
            told = _ErasureResult(last, announced)
            removed += [(first, end, told) for first, end in entry.removed]
        return cls(head.table, last, versions, blocks, removed, announced, is_start)

    def are_told_in(self, manifest: Manifest) -> bool:
        """Tell whether a manifest says what versions or blocks were before."""
        for one in manifest.table_versions:
            told = self.versions.get(one.number)
            if told is not None and told.version and _with_proofs(one, told.version) != one:
                return True
            if told is not None and any(
                note.salt and note.transaction < told.erase for note in one.signed
            ):
                return True
        if manifest.transaction >= self.last:
            return False
        rows = (row for file in manifest.files for row in file.blocks)
        blocks = ((row.crc, self.blocks.get(row.number)) for row in rows)
        return any(told is not None and crc not in (None, told.crc) for crc, told in blocks)

    def may_tell(self, head: TableState) -> list[int]:
        """Return the transactions whose entries may say what was before, in order."""
        before = head.transactions[: max(0, self.last)]
        ends = [one.last_block for one in before]
        brought = {bisect_left(ends, number) for number in self.blocks}
        for first, end, _ in self.removed:
            brought.update(range(bisect_left(ends, first), bisect_left(ends, end) + 1))
        return [
            one.number
            for index, one in enumerate(before)
            if one.operation in _MAY_TELL or one.operation not in _KNOWN or index in brought
        ]

    def without_traces(self, entry: Entry) -> Entry:
        """Return what an entry says that tells nothing of erased rows; itself where it is that.

        What comes back has no hash yet, and, where the entry is of format 1, no link to the one
        before it.
        """
        if entry.rewritten > self.announced:
            return entry
        changes: dict[str, Any] = {}
        allowed: set[int] = set()
        told = self._told(self.versions, entry.version.number, entry) if entry.version else None
        if told is not None and entry.version is not None and told.version is not None:
            now = _with_proofs(entry.version, told.version, rows=told.version.rows)
            # A rebuild writes a version without its lanes, and they are not missed.
            if now != entry.version or entry.lanes not in ({}, told.version.lanes):
                changes |= {"version": now, "lanes": told.version.lanes}
                allowed.add(told.announced)
        signature = entry.signature
        told = self._told(self.versions, signature.version, entry) if signature else None
        if told is not None and signature is not None and signature.salt:
            changes["signature"] = structs.replace(signature, salt="")
            allowed.add(told.announced)
        erased = []
        for one in entry.erased:
            told = self._told(self.versions, one.version, entry)
            if told is not None and told.version is not None:
                now_erased = _with_proofs(one, told.version, lanes=told.version.lanes)
                if now_erased != one:
                    allowed.add(told.announced)
                erased.append(now_erased)
            else:
                erased.append(one)
        bare = {
            name: [self._bare(block, entry, allowed) for block in getattr(entry, name)]
            for name in ("blocks", "moved")
        }
        metadata = self._metadata(entry, allowed)
        if not allowed:
            return entry
        return structs.replace(
            entry,
            format=FORMAT,
            erased=erased,
            metadata=metadata,
            salt="",
            stands_for=entry.chain,
            rewritten=max(entry.rewritten, *allowed),
            hash="",
            **bare,
            **changes,
        )

    def lake_version_without_traces(self, version: LakeVersion) -> LakeVersion:
        """Return what a lake version says with the table's new proofs; itself where it has them."""
        mine = (self.table.tap, self.table.stream)
        others = [one for one in version.rewritten if (one.tap, one.stream) != mine]
        own = [one.transaction for one in version.rewritten if one not in others]
        if any(number > self.announced and self.is_start(number) for number in own):
            return version
        tables, announced = [], 0
        for one in version.tables:
            told = self.versions.get(one.version) if one.name == self.table else None
            now: LakeTable = one
            if told is not None and told.version is not None:
                now = _with_proofs(one, told.version, rows=told.version.rows)
                announced = told.announced if now != one else announced
            tables.append(now)
        if not announced:
            return version
        return structs.replace(
            version,
            format=FORMAT,
            tables=tables,
            fingerprint=fingerprint(tables),
            salt="",
            stands_for=version.chain,
            rewritten=[*others, LakeErasure(*mine, announced)],
            hash="",
        )

    def _told(
        self, by_number: Mapping[int, _ErasureResult], number: int, entry: Entry
    ) -> _ErasureResult | None:
        """The last word on a version or a block, where it came after an entry."""
        told = by_number.get(number)
        return told if told is not None and told.erase > entry.number else None

    def _block(self, number: int, entry: Entry) -> _ErasureResult | None:
        """The last word on a block, where it came after an entry."""
        gone = (told for first, end, told in self.removed if first <= number <= end)
        found = [told for told in (self.blocks.get(number), *gone) if told is not None]
        last = max(found, key=lambda told: told.erase, default=None)
        return last if last is not None and last.erase > entry.number else None

    def _bare(self, block: Block, entry: Entry, allowed: set[int]) -> Block:
        """A block without the checksum of lines that it has no more."""
        told = self._block(block.number, entry)
        if told is None or block.crc in (None, told.crc):
            return block
        allowed.add(told.announced)
        return structs.replace(block, crc=None)

    def _metadata(self, entry: Entry, allowed: set[int]) -> dict[str, Any]:
        """An entry's metadata, without hashes of what erased rows were given in.

        These are the hashes of files, and the digests of rejected records that were replayed.
        """
        found = [told for block in entry.blocks if (told := self._block(block.number, entry))]
        if not found:
            return entry.metadata
        bare = dict(entry.metadata)
        files, rejected = bare.get("files"), bare.get("rejected")
        if isinstance(files, list):
            bare["files"] = [_without(one, "sha256") for one in files]
        if isinstance(rejected, dict) and entry.operation == Operation.REPLAY:
            bare["rejected"] = _without(rejected, "digests")
        if bare == entry.metadata:
            return entry.metadata
        allowed.update(told.announced for told in found)
        return bare


def _without(said: Any, name: str) -> Any:
    return {n: value for n, value in said.items() if n != name} if isinstance(said, dict) else said


def _with_proofs(said: Any, now: ErasedVersion, **more: Any) -> Any:
    return structs.replace(
        said, fingerprint=now.fingerprint, record_fingerprint=now.record_fingerprint, **more
    )


def _announced(head: TableState, erase: int) -> int:
    """The ``erase-start`` that an ``erase`` followed."""
    for one in reversed(head.transactions[: erase - 1]):
        if one.operation == Operation.ERASE_START:
            return one.number
    raise DamagedError(
        f"transaction {erase} of {head.table} erased rows, and no earlier one announces it: check "
        f"for damage with: singerlake verify {head.table}"
    )
