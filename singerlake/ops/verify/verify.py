"""Verify: hold all of a table against its log, its versions too, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import NoReturn, TypeAlias

from singerlake.engine.choice import AUTO, LOCAL, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import SMALL, TooLargeError, Work
from singerlake.errors import RuntimeMissingError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import log
from singerlake.ops.verify import whole_table
from singerlake.ops.verify.problems import Report
from singerlake.ops.verify.signatures import Signers
from singerlake.ops.verify.upgrade import TableUpgrade, upgrade_of
from singerlake.ops.verify.whole_table import check_size
from singerlake.storage.base import Listed, Staged, Store, StoredObject
from singerlake.storage.opening import is_remote
from singerlake.storage.side_by_side import each

SIDE = Work(1 << 20, SMALL.cells)
"""Up to which tables are verified side by side: they are in memory at once, and whoever ends the
command waits for those that are under way."""
Wanted: TypeAlias = "tuple[Table, str | None]"
"""A table, and the version of it that is meant; None for all."""


def verify(
    table: Table,
    version: int | str | None = None,
    choice: EngineChoice | None = None,
    signers: Signers | None = None,
) -> Report:
    """Hold every block of a table, and the fingerprints of its versions, against its log.

    Args:
        version: A frozen version's number or label; by default all are computed again.
        choice: What may read it.
        signers: Those of whom one must have signed each version; by default none need have.

    Returns:
        What was looked at, and what is not as it should be.

    Raises:
        NotFoundError: There is no such version, or nothing was ever committed of the table.
        StoreError: The store refused a listing, or the log.
    """
    choice = choice or EngineChoice()
    name = None if version is None else str(version)
    here = choice.name in (AUTO, LOCAL)
    report = _here(table, name, _limit(choice), signers) if here else None
    return report or _on_spark(table, name, choice, signers)


def verify_tables(
    chosen: Sequence[Wanted],
    choice: EngineChoice,
    shown: Callable[[TableName], AbstractContextManager[object]] = nullcontext,
    signers: Signers | None = None,
) -> Iterator[tuple[int, Report | SingerlakeError]]:
    """Verify tables, and give each one's report as soon as it is there, with its place.

    Those that are done in this process come first, many of a remote store side by side.

    Args:
        shown: Shows that a table is being verified.
        signers: Those of whom one must have signed each version; by default none need have.
    """
    limit = _limit(choice)
    here = choice.name in (AUTO, LOCAL)
    together = len(chosen) > 1 and is_remote(chosen[0][0].store.uri)
    first = SIDE if together else limit

    def look(one: Wanted) -> Report | None:
        return _here(*one, first, signers) if here else None

    looks = each(chosen[0][0].store, look, chosen) if chosen else iter(())
    large: list[int] = []
    for place, (table, _) in enumerate(chosen):
        with shown(table.name):
            _, report = next(looks)
        if report is None:
            large.append(place)
        else:
            yield place, report
    for place in large:
        table, version = chosen[place]
        with shown(table.name):
            found = _larger(table, version, choice, signers, again=here and together)
        yield place, found


def upgrade(table: Table, choice: EngineChoice | None = None) -> TableUpgrade:
    """Find what the rules of today change in a table; see :class:`TableUpgrade`.

    Raises:
        SingerlakeError: The table cannot be read.
    """
    choice = choice or EngineChoice()
    if choice.name in (AUTO, LOCAL):
        with suppress(TooLargeError):
            return upgrade_of(LocalEngine(), table, _limit(choice))
    return upgrade_of(choice.spark_engine("reading the keys of a large table"), table)


def _limit(choice: EngineChoice) -> Work | None:
    return None if choice.name == LOCAL else choice.limit


def _larger(
    table: Table,
    version: str | None,
    choice: EngineChoice,
    signers: Signers | None,
    *,
    again: bool,
) -> Report | SingerlakeError:
    """Verify a table by itself.

    Args:
        choice: What may read it.
        again: Whether it was too large only to be one of many.
    """
    try:
        report = _here(table, version, _limit(choice), signers) if again else None
        return report or _on_spark(table, version, choice, signers)
    except RuntimeMissingError:
        raise
    except SingerlakeError as error:
        return error


def _on_spark(
    table: Table, version: str | None, choice: EngineChoice, signers: Signers | None
) -> Report:
    engine = choice.spark_engine("verifying a table")
    return whole_table.verify(engine, table, version, signers=signers)


def _here(
    table: Table, version: str | None, limit: Work | None, signers: Signers | None
) -> Report | None:
    """Verify a table in this process; None if there is too much to do."""
    engine = LocalEngine()
    if limit is None:
        return whole_table.verify(engine, table, version, signers=signers)
    seen = Table(Remembered(table.store), table.name)
    try:
        with suppress(SingerlakeError):  # a log that cannot be read is what it must report
            if (known := log.read_checkpoint(seen.store, seen.name)) is not None:
                check_size(limit, known, ())
        # A lease takes two requests. Without one a vacuum may delete what is read meanwhile, which
        # then is missing: only what is found under a lease is told of as a problem.
        report = whole_table.verify_leased(engine, seen, version, limit, signers)
        if not report.problems:
            return report
        return whole_table.verify(engine, table, version, limit, signers)
    except TooLargeError:
        return None


# A store as one look at a small table sees it: what was read once is not asked for again.

AHEAD_BYTES = 1 << 20
"""So much of a file is read at once: its next blocks are in it."""


class Remembered(Store):
    """Reads from another store, and keeps what it has read. It writes nothing.

    A block is so held against its checksums, and read as rows, by the very same bytes.
    """

    def __init__(self, store: Store) -> None:
        self.uri = store.uri
        self._store = store
        self._objects: dict[str, StoredObject] = {}
        self._pieces: dict[str, tuple[int, bytes]] = {}
        self._listings: dict[str, list[Listed]] = {}

    def get(self, key: str) -> StoredObject:  # noqa: D102
        if key not in self._objects:
            self._objects[key] = self._store.get(key)
        return self._objects[key]

    def get_range(self, key: str, offset: int, length: int) -> bytes:  # noqa: D102
        start, piece = self._pieces.get(key, (0, b""))
        if not start <= offset <= offset + length <= start + len(piece):
            start, piece = offset, self._store.get_range(key, offset, max(length, AHEAD_BYTES))
            self._pieces[key] = start, piece
        return piece[offset - start : offset - start + length]

    def list(self, prefix: str) -> Iterator[Listed]:  # noqa: D102
        if prefix not in self._listings:
            self._listings[prefix] = [*self._store.list(prefix)]
        return iter(self._listings[prefix])

    def folders(self, prefix: str) -> Sequence[str]:  # noqa: D102
        return self._store.folders(prefix)

    def local_path(self, key: str) -> Path | None:  # noqa: D102
        return self._store.local_path(key)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> NoReturn:  # noqa: ARG002, D102
        self._refuse(key)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> NoReturn:  # noqa: ARG002, D102
        self._refuse(key)

    def delete(self, key: str) -> NoReturn:  # noqa: D102
        self._refuse(key)

    def stage(self) -> Staged:  # noqa: D102
        self._refuse("a file")

    def _refuse(self, what: str) -> NoReturn:
        raise AssertionError(f"{what} was to be written through a read-only store")
