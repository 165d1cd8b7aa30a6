"""What is out of date and why, from metadata alone: logs, and what destinations say of themselves.

Nothing is read of rows, and nothing is written. A refresh decides by the same comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.publish import refreshes
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.graph import Graph, Reading, graph
from singerlake.publish.overlap import overlap
from singerlake.publish.positions import behind, is_same_table
from singerlake.publish.projection import DECIDE_ROWS, Projection
from singerlake.publish.published import Position, Published, SourceState
from singerlake.publish.versions import not_published, versioned_table
from singerlake.quantities import count
from singerlake.storage.side_by_side import LOOKS


class Why(str, Enum):
    """Why a projection is out of date, as a word for programs."""

    NEVER_BUILT = "never_built"
    """There is no staging table, or nothing at the destination."""
    GONE = "gone"
    """What the lake lists as published is not there any more."""
    BEHIND = "behind"
    """A table that it reads has other rows or columns now."""
    SOURCE_LOST = "source_lost"
    """The state that was read cannot be read again: all is built anew."""
    DEFINITION = "definition"
    """It is declared otherwise now."""
    TOUCHED = "touched"
    """Somebody else changed the staging table."""
    VERSION = "version"
    """A frozen version is not published."""
    UPSTREAM = "upstream"
    """A projection that it reads is out of date."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Reason:
    """One reason why a projection is out of date.

    Attributes:
        why: What sort of reason.
        text: The reason, for people.
        table: The table that it is about, or that has moved on.
        behind: The transactions that it has moved on by.
    """

    why: Why
    text: str
    table: str | None = None
    behind: int | None = None


@dataclass(frozen=True)
class Status:
    """Whether a projection is up to date.

    Attributes:
        projection: Which.
        reasons: Why it is not; none where it is.
        rows: The rows at its destination; None where nothing is published.
        overlap: The share of these that lie in files whose ranges overlap; None where there is no
            order.
        error: Why it cannot be told.
    """

    projection: Projection
    reasons: tuple[Reason, ...] = ()
    rows: int | None = None
    overlap: float | None = None
    error: SingerlakeError | None = None

    @property
    def up_to_date(self) -> bool:
        """Whether a refresh would find nothing to do."""
        return not self.reasons and self.error is None


def status(lake: Lake, projections: Sequence[Projection]) -> list[Status]:
    """Tell of each projection whether it is up to date, and why not.

    Args:
        lake: The lake.
        projections: All that are declared, in any order.

    Returns:
        In the order in which they can run.

    Raises:
        NotFoundError: One reads a table that neither the lake has nor another one makes.
        UsageError: They cannot be as a whole.
    """
    return status_of(lake, graph(lake, projections))


def status_of(lake: Lake, known: Graph) -> list[Status]:
    """Do the same for projections whose graph is known."""
    wanted = _tables(known)
    published = [one for one in known.projections if one.target is not None]
    with ThreadPoolExecutor(LOOKS, "status") as pool:
        heads = pool.map(lambda table: _head(lake, table), wanted)
        places = pool.map(_published, published)
        look = _Look(
            lake,
            known,
            dict(zip(wanted, heads, strict=True)),
            {one.name: place for one, place in zip(published, places, strict=True)},
        )
    outdated: set[str] = set()
    found = []
    for one in known.projections:
        found.append(look.status(one, outdated))
        if not found[-1].up_to_date:
            outdated.add(one.name)
    return found


def _tables(known: Graph) -> list[TableName]:
    """All tables that have to be looked at, each once."""
    read = (reading.table for one in known.projections for reading in known.readings[one.name])
    made = (one.stage for one in known.projections if one.stage is not None)
    return list(dict.fromkeys((*read, *made)))


def _head(lake: Lake, table: TableName) -> TableState | SingerlakeError:
    try:
        return lake.table(table).snapshot()
    except SingerlakeError as error:
        return error


def _published(projection: Projection) -> Published | SingerlakeError | None:
    try:
        return open_destination(projection).published()
    except SingerlakeError as error:
        return error


@dataclass(frozen=True)
class _Look:
    """What was found."""

    lake: Lake
    known: Graph
    heads: Mapping[TableName, TableState | SingerlakeError]
    places: Mapping[str, Published | SingerlakeError | None]

    def status(self, one: Projection, outdated: Iterable[str]) -> Status:
        """One projection's status, where those are known that it reads."""
        place = self.places.get(one.name)
        there = None if isinstance(place, SingerlakeError) else place
        rows = None if there is None else there.rows
        share = overlap(there.files) if there is not None and (one.order_by or one.key) else None
        try:
            reasons = tuple(self._reasons(one, outdated))
        except SingerlakeError as error:
            return Status(one, (), rows, share, error)
        return Status(one, reasons, rows, share)

    def _reasons(self, one: Projection, outdated: Iterable[str]) -> Iterator[Reason]:
        for maker in self.known.makers(one.name):
            if maker in outdated:
                table = str(self.known.get(maker).stage)
                yield Reason(Why.UPSTREAM, f"{table} is out of date", table)
        if one.stage is not None:
            yield from self._of_stage(one, one.stage)
        if one.target is not None:
            yield from self._of_destination(one)

    def _of_stage(self, one: Projection, stage: TableName) -> Iterator[Reason]:
        head = self._there(stage)
        if head is None:
            yield Reason(Why.NEVER_BUILT, f"{stage}: never built", str(stage))
            return
        last = refreshes.last_refresh(self.lake.store, head)
        if last is None:
            raise UsageError(
                f"{stage} is a table that no projection created: give {one.name} another stage"
            )
        if last.touched is not None:
            text = f"{stage}: transaction {last.touched} was not a refresh"
            yield Reason(Why.TOUCHED, text, str(stage))
        changed = one.changed_since(last.position.definition)
        if changed := tuple(name for name in changed if name in DECIDE_ROWS):
            yield Reason(Why.DEFINITION, f"{stage}: {_changed(changed)}", str(stage))
        else:
            for reason in self._of_sources(one, last.position):
                yield Reason(reason.why, f"{stage}: {reason.text}", reason.table, reason.behind)

    def _of_destination(self, one: Projection) -> Iterator[Reason]:
        place = self.places[one.name]
        if isinstance(place, SingerlakeError):
            raise place
        if place is None:
            yield self._nothing_there(one)
            return
        changed = one.changed_since(place.position.definition)
        if changed:
            yield Reason(Why.DEFINITION, _changed(changed))
        elif one.stage is None:
            yield from self._of_sources(one, place.position)
        elif (head := self._there(one.stage)) is not None:
            yield from _of_source(Reading(one.stage), head, place.position.sources)
        if one.versions:
            yield from self._of_versions(one, place)

    def _nothing_there(self, one: Projection) -> Reason:
        listed = self.lake.annotations().published.get(one.name)
        if listed is None or one.target is None:
            return Reason(Why.NEVER_BUILT, "never published")
        if listed.to == one.target.uri:
            return Reason(Why.GONE, "the destination is missing")
        return Reason(Why.NEVER_BUILT, f"never published here, but at {listed.to}")

    def _of_sources(self, one: Projection, position: Position) -> Iterator[Reason]:
        for reading in self.known.readings[one.name]:
            head = self._there(reading.table)
            if head is None and reading.maker is not None:
                continue  # the maker's own status says it
            if head is None:
                raise NotFoundError(f"the lake has no table {reading.table} any more")
            yield from _of_source(reading, head, position.sources)

    def _of_versions(self, one: Projection, place: Published) -> Iterator[Reason]:
        table = versioned_table(self.lake, one).name
        head = self._there(table)
        for version in [] if head is None else not_published(head, place):
            text = f"version {version.number} of {table} is not published"
            yield Reason(Why.VERSION, text, str(table))

    def _there(self, table: TableName) -> TableState | None:
        """The head of a table; None where there is none."""
        head = self.heads[table]
        if isinstance(head, NotFoundError):
            return None
        if isinstance(head, SingerlakeError):
            raise head
        return head


def _changed(fields: Iterable[str]) -> str:
    words = {"rules": "the rules of types"}
    return f"the definition changed: {', '.join(words.get(name, name) for name in fields)}"


def _of_source(
    reading: Reading, head: TableState, states: Iterable[SourceState]
) -> Iterator[Reason]:
    """Why what was read of a table is not what would be read now."""
    table = str(reading.table)
    if reading.timestamp is not None:
        now = head.at_time(reading.timestamp)
    elif reading.version is not None:
        now = head.named(reading.version)[1]
    else:
        now = head
    then = [one for one in states if one.table == table]
    same = [one for one in then if is_same_table(one, head)]
    # A query may read several versions of a table: one of the states is that of this one.
    if any(one.transaction <= now.number and behind(one, now) is None for one in same):
        return
    if not then:
        yield Reason(Why.BEHIND, f"{reading} was not read before", table)
    elif not same:
        text = f"{reading} is not the same table that was read: will be rebuilt"
        yield Reason(Why.SOURCE_LOST, text, table)
    elif not any(head.readable(one.transaction) for one in same):
        text = f"history of {reading} was dropped: will be rebuilt"
        yield Reason(Why.SOURCE_LOST, text, table)
    elif now.number < min(one.transaction for one in same):
        yield Reason(Why.BEHIND, f"{reading} names an earlier version than was read", table)
    else:
        number = max(now.number - max(one.transaction for one in same), 1)
        text = f"{count(number, 'transaction')} behind {reading}"
        yield Reason(Why.BEHIND, text, table, number)
