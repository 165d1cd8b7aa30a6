"""The lake's log: read from its first entry on, and appended to.

It is short, for each entry is a lake version that somebody asked for; so there is no checkpoint.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from singerlake.errors import (
    ConflictError,
    DamagedError,
    DataError,
    NotFoundError,
    SingerlakeError,
)
from singerlake.format import lake_log as format_lake_log
from singerlake.format import names, times
from singerlake.format.lake_log import LakeVersion
from singerlake.format.names import TableName
from singerlake.nearest import offer
from singerlake.storage.base import READERS, KeyMissingError, Store

Draft = Callable[[Sequence[LakeVersion]], LakeVersion]
"""Drafts a lake version that is to follow others, still without number, commit id and time. It is
called again whenever another got in first."""
HINT = "restore it from a backup or a copy; the tables and their versions do not need it"
"""What may be done about an entry that is lost or damaged."""


@dataclass(frozen=True)
class LakeLog:
    """The lake's log, as :func:`~singerlake.log.appending.appending` takes it."""

    store: Store
    lock = names.LAKE_LOCK

    def key(self, number: int) -> str:
        """Key of an entry."""
        return names.lake_version(number)

    def read(self, number: int) -> LakeVersion | None:
        """Return an entry; None where there is none.

        Raises:
            DamagedError: It cannot be read.
        """
        key = self.key(number)
        try:
            return format_lake_log.decode(self.store.get(key).data, number, key)
        except KeyMissingError:
            return None

    def decode(self, data: bytes, number: int) -> LakeVersion:
        """Read an entry's bytes."""
        return format_lake_log.decode(data, number, self.key(number))

    def seal(self, entry: LakeVersion) -> tuple[LakeVersion, bytes]:
        """Return an entry with its hash, and its bytes."""
        return format_lake_log.seal(entry)

    def unknown(self, number: int, error: Exception) -> str:
        """Say that nobody knows whether an entry was committed, and how to find out."""
        return (
            f"whether lake version {number} was committed cannot be determined: {error}; check "
            "with: singerlake versions"
        )


def read(store: Store, upto: int | None = None) -> list[LakeVersion]:
    """Return all lake versions, in order.

    Args:
        store: The lake's store.
        upto: Only those up to this number, which must be there.

    Raises:
        DamagedError: An entry is lost or damaged, or does not follow the one before.
    """
    log, numbers = LakeLog(store), listed_numbers(store)
    if upto is not None:
        numbers = [number for number in numbers if number < upto] + [upto]
    whole = sum(1 for number, listed in enumerate(numbers, start=1) if number == listed)
    with ThreadPoolExecutor(READERS, "lake-log") as pool:
        found = list(pool.map(log.read, range(1, whole + 1)))
    # Some stores list what is new only later.
    while len(found) != upto and (entry := log.read(len(found) + 1)) is not None:
        found.append(entry)
    if numbers and numbers[-1] > len(found):
        raise _lost(len(found) + 1)
    return check_chain(found)


def look(store: Store) -> tuple[list[LakeVersion], list[SingerlakeError]]:
    """Return the lake versions that can be read, in order, and what is wrong with others.

    Each is what it says by its own hash. That they follow each other, only :func:`read` looks at.
    """
    log = LakeLog(store)

    def entry(number: int) -> LakeVersion | SingerlakeError:
        try:
            return log.read(number) or _lost(number)
        except DataError as error:
            return error

    listed = listed_numbers(store)
    wanted = {*listed, *(number + 1 for number in (0, *listed[:-1]))}  # a gap is told of once
    with ThreadPoolExecutor(READERS, "lake-log") as pool:
        found = list(pool.map(entry, sorted(wanted) if listed else ()))
    # Some stores list what is new only later.
    following = listed[-1] + 1 if listed else 1
    while (newer := log.read(following)) is not None:
        found.append(newer)
        following += 1
    there = [one for one in found if isinstance(one, LakeVersion)]
    return there, [one for one in found if isinstance(one, SingerlakeError)]


def named(store: Store, name: str) -> LakeVersion:
    """Return a lake version by its number or its label, whatever became of the others.

    Raises:
        NotFoundError: There is none of this name.
        DamagedError: It cannot be read; or none has this label, and one cannot be read.
    """
    if re.fullmatch("[1-9][0-9]{0,11}", name):
        one = LakeLog(store).read(int(name))
        if one is not None:
            return one
    versions, wrong = look(store)
    try:
        return find(versions, name)
    except NotFoundError:
        if wrong:
            raise wrong[0] from None
        raise


def listed_numbers(store: Store) -> list[int]:
    """Return the numbers of the entries that the store lists, sorted."""
    numbers = (names.lake_version_number(item.key) for item in store.list(names.LAKE_LOG))
    return sorted(number for number in numbers if number is not None)


def _lost(number: int) -> DamagedError:
    return DamagedError(f"{names.lake_version(number)} is lost: {HINT}")


def check_chain(found: Sequence[LakeVersion | None]) -> list[LakeVersion]:
    """Make sure that entries from the first on follow each other.

    Raises:
        DamagedError: One is missing, or follows another.
    """
    chained: list[LakeVersion] = []
    for number, entry in enumerate(found, start=1):
        if entry is None:
            raise _lost(number)
        if chained and entry.previous != chained[-1].chain:
            raise DamagedError(
                f"{names.lake_version(number)} does not follow {names.lake_version(number - 1)}, "
                f"as it is now: one of them was replaced: {HINT}"
            )
        chained.append(entry)
    return chained


def find(versions: Sequence[LakeVersion], name: str) -> LakeVersion:
    """Return a lake version by its number or its label.

    Raises:
        NotFoundError: There is none of this name.
    """
    for version in reversed(versions):
        if name in (str(version.number), version.label):
            return version
    there = {
        v.label or str(v.number): f"{v.number} ({v.label})" if v.label else f"{v.number}"
        for v in reversed(versions)
    }
    none = "create one with: singerlake freeze --all"
    raise NotFoundError(f"there is no lake version {name!r}: {offer(name, there, none)}")


def version_of(version: LakeVersion, table: TableName) -> str:
    """Return the number of the version that a lake version means of a table.

    Raises:
        NotFoundError: The table is not in it.
    """
    if (said := version.table(table)) is None:
        there = [str(one.name) for one in version.tables]
        raise NotFoundError(f"{version} has no table {table}: {offer(str(table), there)}")
    return str(said.version)


def naming(versions: Sequence[LakeVersion], table: TableName, number: int) -> list[LakeVersion]:
    """Return the lake versions that name a version of a table."""
    found = ((one, one.table(table)) for one in versions)
    return [one for one, said in found if said is not None and said.version == number]


def commit(store: Store, draft: Draft) -> LakeVersion:
    """Append a lake version to the lake's log.

    Args:
        draft: Drafts it, knowing all before it.

    Returns:
        The lake version as the log has it.

    Raises:
        ConflictError: ``draft`` raised it, or too many others got in first.
        DamagedError: The log cannot be gone on with.
        OutcomeUnknownError: It may have been written.
        StoreError: The store refused; nothing was committed.
    """
    from singerlake.log.appending import appending  # late: readers need none of it
    from singerlake.log.commit import ATTEMPTS

    log, commit_id = LakeLog(store), uuid.uuid4().hex
    versions = read(store)
    with appending(log) as append:
        for _ in range(ATTEMPTS):
            entry = msgspec.structs.replace(
                draft(versions),
                number=len(versions) + 1,
                commit=commit_id,
                salt=secrets.token_hex(16),
                time=times.iso(times.now()),
                previous=versions[-1].chain if versions else "",
            )
            if (written := append(entry)) is not None:
                return written
            versions = read(store)
    raise ConflictError("lake versions are created too fast for this one: try again")
