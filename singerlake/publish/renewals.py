"""What is published of tables whose rows are erased: whether it can be published anew, and is due.

Only the file that declares a projection says how. What lies at a destination does not tell whether
all from before an erasure is gone there, so the lake's own file does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format.annotations import Publication
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish.declaration import declared
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.graph import Graph, graph
from singerlake.publish.projection import Projection


@dataclass(frozen=True)
class Stuck:
    """A publication that cannot be published anew.

    Attributes:
        name: The projection's.
        to: Where it is.
        why: Why it cannot, as a clause.
    """

    name: str
    to: str
    why: str


@dataclass(frozen=True)
class Renewals:
    """What is published of some tables.

    Attributes:
        known: All that is declared; None where nothing is published of the tables.
        names: The projections that are to be published anew, in the order of running.
        stuck: What cannot be.
    """

    known: Graph | None = None
    names: tuple[str, ...] = ()
    stuck: tuple[Stuck, ...] = ()

    @property
    def to_run(self) -> tuple[Projection, ...]:
        """Them, and those that make what they read."""
        return () if self.known is None else self.known.with_makers(self.names)

    def tables_of(self, name: str) -> set[TableName]:
        """The tables that a projection descends from."""
        if self.known is None:
            return set()
        found: set[TableName] = set()
        for one in self.known.with_makers([name]):
            found |= {reading.table for reading in self.known.readings[one.name]}
            found |= set() if one.stage is None else {one.stage}
        return found


def renewals(
    lake: Lake,
    tables: Collection[TableName],
    file: Path | None = None,
    dropped: Collection[TableName] = (),
) -> Renewals:
    """Find what is published of some tables, and see that it can be published anew.

    Destinations are reached; nothing is written.

    Args:
        lake: The lake.
        tables: Tables, with all that were computed of them.
        file: Where projections are declared; ``projections.yml`` by default.
        dropped: Those of them of which nothing can be made, for they were dropped.

    Raises:
        UsageError: What is declared cannot be.
        DamagedError: The lake's file cannot be read.
    """
    wanted = {*map(str, tables)}
    published = lake.annotations(strict=True).published
    concerned = {name: one for name, one in published.items() if wanted & {*one.tables}}
    if not concerned:
        return Renewals()
    try:
        known = graph(lake, declared(file))
    except NotFoundError as error:
        return Renewals(stuck=_all_stuck(concerned, str(error)))
    whys = {
        name: _dropped_words(known, name, one, dropped) or _why_not(known, name, one)
        for name, one in concerned.items()
    }
    return Renewals(
        known,
        tuple(one.name for one in known.projections if whys.get(one.name, "no") is None),
        tuple(
            Stuck(name, concerned[name].to, why)
            for name, why in sorted(whys.items())
            if why is not None
        ),
    )


def erasures(lake: Lake, tables: Collection[TableName]) -> dict[str, int]:
    """Return the last erasure of each of some tables that ever had one."""
    found: dict[str, int] = {}
    for name in sorted(tables):
        try:
            at = lake.table(name).snapshot(dropped=True).erased_at
        except NotFoundError:
            continue  # one that is yet to be staged
        if at:
            found[str(name)] = at
    return found


def is_due(lake: Lake, name: str, erased: Mapping[str, int]) -> bool:
    """Tell whether what is published may have rows from before some erasures."""
    one = lake.annotations(strict=True).published.get(name)
    if one is None:
        return False
    return bool(one.again) or any(at > one.erased.get(table, 0) for table, at in erased.items())


def _all_stuck(concerned: Mapping[str, Publication], why: str) -> tuple[Stuck, ...]:
    return tuple(Stuck(name, one.to, why) for name, one in sorted(concerned.items()))


def _dropped_words(
    known: Graph, name: str, one: Publication, dropped: Collection[TableName]
) -> str | None:
    """Why nothing can be made of what something descends from; None where nothing was dropped."""
    declared_here = any(each.name == name for each in known.projections)
    tables = Renewals(known).tables_of(name) if dropped and declared_here else set()
    lost = sorted({*map(str, dropped)} & {*one.tables, *map(str, tables)})
    return f"{', '.join(lost)} is dropped" if lost else None


def _why_not(known: Graph, name: str, one: Publication) -> str | None:
    """Why something cannot be published anew; None where it can."""
    projection = next((each for each in known.projections if each.name == name), None)
    if projection is None or projection.target is None:
        return "no projection of this name is declared"
    if projection.target.uri != one.to:
        return f"it is declared to go to {projection.target.uri}"
    try:
        open_destination(projection).published()
    except SingerlakeError as error:
        return str(error)
    return None
