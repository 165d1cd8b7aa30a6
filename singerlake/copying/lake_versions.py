"""Copying lake versions: the entries of the lake's own log, after the tables that they name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from singerlake.errors import ConflictError
from singerlake.format import lake_log as format_lake_log
from singerlake.format import names
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.storage.base import Store
from singerlake.transactions import lake_log
from singerlake.transactions.appending import appending
from singerlake.transactions.lake_log import LakeLog


@dataclass(frozen=True)
class _SourceLog(LakeLog):
    """The destination's log, whose entries are spelled as they are at the source."""

    source: LakeLog = field(kw_only=True)

    def seal(self, entry: LakeVersion) -> tuple[LakeVersion, bytes]:
        """Return an entry, and its bytes at the source, which are still those that were read."""
        key = self.source.key(entry.number)
        data = self.source.store.get(key).data
        if format_lake_log.decode(data, entry.number, key).hash != entry.hash:
            raise ConflictError(f"{key} became another while it was copied: run it again")
        return entry, data


def copy_lake_versions(
    source: Store,
    destination: Store,
    versions: Sequence[LakeVersion],
    failed: Collection[TableName],
    *,
    dry_run: bool = False,
) -> list[LakeVersion]:
    """Copy the lake versions that are not at the destination yet, byte for byte, in order.

    Args:
        source: Whence.
        destination: Where to.
        versions: Those of the source, read before any table was copied: so all tables that were
            have the versions that these name.
        failed: Tables that could not be copied. The first lake version that names one of them
            waits for the next run, and so do all after it.
        dry_run: Only say what would be copied.

    Returns:
        Those that were copied.

    Raises:
        ConflictError: The destination has lake versions of its own.
        DamagedError: A lake's log cannot be read.
        StoreError: A store refused.
    """
    present = lake_log.read(destination)
    for ours, theirs in zip(versions, present, strict=False):
        if ours.chain != theirs.chain:
            raise _diverged(destination, theirs)
        if ours.hash != theirs.hash:
            raise _erased(destination, ours)
    if len(present) > len(versions):
        raise _diverged(destination, present[len(versions)])
    coming: list[LakeVersion] = []
    for version in versions[len(present) :]:
        if any(table.name in failed for table in version.tables):
            break
        coming.append(version)
    if dry_run or not coming:
        return coming
    with appending(_SourceLog(destination, source=LakeLog(source))) as append:
        for version in coming:
            if append(version) is None:
                raise _diverged(destination, version)
    return coming


def _erased(destination: Store, version: LakeVersion) -> ConflictError:
    return ConflictError(
        f"rows of {version} were erased at the source, and the lake at {destination.uri} still has "
        f"its fingerprints of before: delete {names.LAKE_LOG} there, and copy the lake again"
    )


def _diverged(destination: Store, version: LakeVersion) -> ConflictError:
    return ConflictError(
        f"the lake at {destination.uri} has another {names.lake_version(version.number)} than the "
        "source: lake versions were made in the copy; none was copied or overwritten: copy to "
        "another place, or move that folder away from there"
    )
