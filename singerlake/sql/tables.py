"""The tables that a query reads, and their states, held by leases.

Every engine finds a query's tables here, so that names, versions and transactions mean the same on
all of them. Imports no pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from singerlake.errors import ConflictError, InvalidQueryError, NotFoundError
from singerlake.format import sql_tokens
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find
from singerlake.lake import Lake
from singerlake.log import lake_log
from singerlake.log.lease import ReaderLease
from singerlake.log.table_state import TableState
from singerlake.nearest import SHOWN, nearest, offer


@dataclass(frozen=True)
class Relation:
    """A table that a query reads.

    Attributes:
        start: The name's offset in the text.
        aliased: Whether an alias follows.
        version: The text after VERSION AS OF.
        timestamp: The text after TIMESTAMP AS OF.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    aliased: bool = False
    version: str | None = None
    timestamp: str | None = None


@dataclass(frozen=True)
class Source:
    """A table as a query read it.

    Attributes:
        version: Its version's number; None if the query did not ask for one.
        transaction: The transaction that was read, which ``if_transaction`` takes.
        misfits: The number of values replaced per column because they do not fit it.
        commit: That transaction's id.
        erased: The last transaction that had erased rows of the table by then; 0 for none.
        pointer: The pointer, such as ``@current``, by which the query named the version.
    """

    table: TableName
    version: int | None
    transaction: int
    misfits: Mapping[str, int] = field(default_factory=dict, hash=False)
    commit: str = ""
    erased: int = 0
    pointer: str | None = None

    def __str__(self) -> str:
        suffix = "" if self.version is None else f".{self.version}"
        return f"{self.table}{suffix} at transaction {self.transaction}"


@dataclass(kw_only=True)
class Tables:
    """The lake's tables as a query names them, held from the first look on.

    Attributes:
        if_transaction: For tables read at their head: the transaction they must be at.
        heads: For tables read at their head: the transaction whose state is used instead.
        lake_version: Says the versions of tables that are named without one.
        states: The states that are read, by the table and its transaction.
        sources: The same for people.
        leases: Keep vacuums off what is read.
        turned: The versions of tables that :meth:`turn_to` was called for, by number.
    """

    lake: Lake
    if_transaction: dict[str, int] = field(default_factory=dict)
    heads: dict[TableName, int] = field(default_factory=dict)
    lake_version: LakeVersion | None = None
    states: dict[tuple[TableName, int], TableState] = field(default_factory=dict)
    sources: dict[tuple[TableName, int, int | None], Source] = field(default_factory=dict)
    leases: list[ReaderLease] = field(default_factory=list)
    turned: dict[TableName, int | None] = field(default_factory=dict)
    _heads: dict[TableName, TableState] = field(default_factory=dict)
    _pointers: dict[tuple[TableName, int], str] = field(default_factory=dict)
    _known: list[TableName] | None = None

    @property
    def known(self) -> list[TableName]:
        """The lake's tables, listed once a query."""
        if self._known is None:
            self._known = self.lake.tables()
        return self._known

    def read(self, relation: Relation) -> tuple[TableName, TableState, int | None]:
        """Return the table that a relation means, its state, and its version's number if asked for.

        Raises:
            NotFoundError: The lake has no such table or version.
            InvalidQueryError: The name could mean several tables, or names two versions.
            ConflictError: The table is not at the transaction that it must be at.
        """
        name, version = self.find(relation.parts)
        if version is not None and (relation.version or relation.timestamp):
            raise InvalidQueryError(f"{'.'.join(relation.parts)} names two versions at once")
        pinned = version or relation.version
        if pinned is None and relation.timestamp is None and self.lake_version is not None:
            pinned = lake_log.version_of(self.lake_version, name)
        head = self.head(name)
        if relation.timestamp is not None:
            return name, head.at_time(relation.timestamp), None
        if pinned is not None:
            frozen, snapshot = self._named(head, pinned)
            if frozen is None:
                return name, snapshot, None
            if pinned.startswith("@"):
                self._pointers[name, frozen.number] = pinned
            return name, snapshot, frozen.number
        self._check_transaction(head)
        return name, head.at(self.heads.get(name, head.number)), None

    def turn_to(self, parts: tuple[str, ...], at: str) -> None:
        """Read a table in a version by default: its head is that of the version from now on.

        Args:
            parts: The name of the table, without a version.
            at: The version, by number or label.

        Raises:
            NotFoundError: The lake has no such table or version.
        """
        name, version = self.find(parts)
        if version is None and name not in self.turned:
            frozen, snapshot = self.head(name).named(at)
            self.heads[name] = snapshot.number
            self.turned[name] = None if frozen is None else frozen.number

    def note(
        self,
        name: TableName,
        snapshot: TableState,
        number: int | None,
        misfits: Mapping[str, int],
    ) -> None:
        """Note what is read of a table, for people and for the next query."""
        pointer = None if number is None else self._pointers.get((name, number))
        self.sources[(name, snapshot.number, number)] = Source(
            name, number, snapshot.number, misfits, snapshot.commit, snapshot.erased_at, pointer
        )

    def find(self, parts: tuple[str, ...]) -> tuple[TableName, str | None]:
        """Find the table that a name means, and the version if it has one.

        Raises:
            NotFoundError: The lake has no such table.
            InvalidQueryError: It could mean several.
        """
        try:
            return find(parts, self.known)
        except NotFoundError:
            if len(parts) == 1:
                raise
            raise self.lake.missing(TableName(parts[0], ".".join(parts[1:]))) from None

    def _named(self, head: TableState, wanted: str) -> tuple[FrozenVersion | None, TableState]:
        try:
            return head.named(wanted)
        except NotFoundError as error:
            other = TableName(head.table.tap, f"{head.table.stream}.{wanted}")
            if other not in self.known:
                raise
            hint = ".".join(map(sql_tokens.quote, (other.tap, other.stream)))
            raise NotFoundError(f"{error}; the stream of that name is written {hint}") from None

    def head(self, name: TableName) -> TableState:
        """Return a table's head: one snapshot a query, so that all its parts see the same."""
        if name not in self._heads:
            lease = self.lake.table(name).lease().acquire()
            self.leases.append(lease)
            self._heads[name] = lease.snapshot
        return self._heads[name]

    def release(self) -> None:
        """Give up the leases, if there will be no result."""
        for lease in self.leases:
            lease.release()

    def _check_transaction(self, head: TableState) -> None:
        wanted = self.if_transaction.get(str(head.table), self.if_transaction.get("*"))
        if wanted is not None and wanted != head.number:
            raise ConflictError(
                f"{head.table} is at transaction {head.number}, not {wanted} any more: "
                "ask again, without --if-transaction"
            )


METADATA_NAMES = ("row_id", "row_version", "transaction")
"""What the columns of row metadata are called, behind an underscore at least."""


def metadata_names(columns: Iterable[str]) -> list[str]:
    """Return the names of the columns of row metadata, which no column of the table has."""
    taken = {name.casefold() for name in columns}
    front = "_"
    while {f"{front}{name}" for name in METADATA_NAMES} & taken:
        front += "_"
    return [f"{front}{name}" for name in METADATA_NAMES]


def columns_offered(name: str, columns: Mapping[TableName, list[str]]) -> str:
    """Return what follows "there is no column …": columns of any of the tables that are read."""
    wanted = name.rpartition(".")[2].strip("`")
    near = [
        f"{column} of {table}" for table, own in columns.items() for column in nearest(wanted, own)
    ]
    if near:
        return f"did you mean {' or '.join(near[:SHOWN])}?"
    offers = (f"{table}: {offer(wanted, own)}" for table, own in columns.items())
    return "; ".join(offers) or "no table is read"
