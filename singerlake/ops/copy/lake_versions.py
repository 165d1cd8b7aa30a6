"""Copying lake versions: the entries of the lake's own log, after the tables that they name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from singerlake.errors import ConflictError, DamagedError, NotFoundError, SingerlakeError
from singerlake.format import lake_log as format_lake_log
from singerlake.format import names
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import lake_log, not_copied
from singerlake.log.appending import appending
from singerlake.log.lake_log import LakeLog
from singerlake.log.not_copied import Absences, entry_of
from singerlake.ops.copy import absences
from singerlake.ops.verify.lake import check_table
from singerlake.storage.base import Store


@dataclass(frozen=True)
class _SourceLog(LakeLog):
    """The destination's log, whose entries are spelled as they are at the source."""

    source: LakeLog = field(kw_only=True)

    def seal(self, entry: LakeVersion) -> tuple[LakeVersion, bytes]:
        """Return an entry, and its bytes at the source, which are still those that were read."""
        key = self.source.key(entry.number)
        data = self.source.store.get(key).data
        if format_lake_log.decode(data, entry.number, key).hash != entry.hash:
            raise ConflictError(f"{key} was replaced while it was copied: run it again")
        return entry, data


@dataclass(frozen=True)
class CopiedLakeVersion:
    """A lake version whose entry was copied, or would be.

    Attributes:
        version: Which.
        absent: Tables of it that are not there.
        with_tables: Whether its tables are copied, and not just those of a later one.
    """

    version: LakeVersion
    absent: frozenset[TableName] = frozenset()
    with_tables: bool = True


def choose_lake_version(
    lake: Lake, name: int | str
) -> tuple[dict[TableName, Sequence[str]], list[LakeVersion]]:
    """Find the tables of a lake version, each with its version, and the lake's log up to it.

    Raises:
        NotFoundError: There is none of this name, or a table of it, or its version, is gone.
        DamagedError: The lake's log cannot be read, or does not say what the tables' logs say.
    """
    wanted = lake.lake_version(name)
    versions = lake_log.read(lake.store, upto=wanted.number)
    said = {table.name: table for table in wanted.tables}
    for table, found in lake.each(said, lambda one: one.snapshot()):
        if isinstance(found, SingerlakeError):
            raise type(found)(f"{wanted} cannot be copied: {found}") from found
        for finding in check_table(wanted, said[table], found):
            gone = isinstance(finding, str)
            raise (NotFoundError if gone else DamagedError)(f"{wanted} cannot be copied: {finding}")
    return {table: (str(one.version),) for table, one in said.items()}, versions


def copy_lake_versions(
    source: Store,
    destination: Store,
    versions: Sequence[LakeVersion],
    failed: Collection[TableName],
    *,
    last_alone: bool = False,
    dry_run: bool = False,
) -> list[CopiedLakeVersion]:
    """Copy the lake versions that are not at the destination yet, byte for byte, in order.

    Args:
        source: Whence.
        destination: Where to.
        versions: Those of the source, read before any table was copied: so all tables that were
            have the versions that these name.
        failed: Tables that could not be copied. The first lake version that names one of them
            waits for the next run, and so do all after it.
        last_alone: Only tables of the last one were copied, and the others are there to prove it:
            what the destination has not of them is noted.
        dry_run: Only say what would be copied.

    Returns:
        Those that were copied.

    Raises:
        ConflictError: The destination has lake versions of its own.
        DamagedError: A lake's log cannot be read.
        StoreError: A store refused.
    """
    coming: list[LakeVersion] = []
    for version in coming_versions(destination, versions, last_alone=last_alone):
        if (last_alone and failed) or any(table.name in failed for table in version.tables):
            break
        coming.append(version)
    if dry_run:
        last = versions[-1:]
        return [CopiedLakeVersion(one, with_tables=one in last or not last_alone) for one in coming]
    absent: Absences = {}
    if coming:
        asked: absences.Asked
        if last_alone:
            asked = {entry_of(one): [t.name for t in one.tables] for one in versions[:-1]}
        else:
            asked = not_copied.read(source)
        absent = absences.find(destination, coming, asked)
        absences.announce(destination, absent)
        with appending(_SourceLog(destination, source=LakeLog(source))) as append:
            for version in coming:
                if append(version) is None:
                    raise _diverged(destination, version)
    absences.settle(destination)
    return [CopiedLakeVersion(one, absent.get(entry_of(one), frozenset())) for one in coming]


def coming_versions(
    destination: Store, versions: Sequence[LakeVersion], *, last_alone: bool
) -> Sequence[LakeVersion]:
    """Return the lake versions that the destination does not have.

    Args:
        destination: Where to look.
        versions: Those of the source.
        last_alone: Whether the source may have more than these.

    Raises:
        ConflictError: The destination has lake versions of its own.
        DamagedError: Its log cannot be read.
    """
    present = lake_log.read(destination)
    for ours, theirs in zip(versions, present, strict=False):
        if ours.chain != theirs.chain:
            raise _diverged(destination, theirs)
        if ours.hash != theirs.hash:
            raise _erased(destination, ours)
    if len(present) > len(versions) and not last_alone:
        raise _diverged(destination, present[len(versions)])
    return versions[len(present) :]


def _erased(destination: Store, version: LakeVersion) -> ConflictError:
    return ConflictError(
        f"rows of {version} were erased at the source, and the lake at {destination.uri} still has "
        f"its earlier fingerprints: delete {names.LAKE_LOG} there, and copy the lake again"
    )


def _diverged(destination: Store, version: LakeVersion) -> ConflictError:
    return ConflictError(
        f"the lake at {destination.uri} has another {names.lake_version(version.number)} than the "
        "source: lake versions were made in the copy; none was copied or overwritten: copy to "
        "another place, or move that folder away from there"
    )
