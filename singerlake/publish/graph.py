"""What reads what: projections in the order in which they can run, and mistakes of the whole."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.names import TableName, TableRef
from singerlake.format.sql_tables import find, reference
from singerlake.lake import Lake
from singerlake.nearest import bare, offer
from singerlake.publish.projection import Format, Projection
from singerlake.storage.opening import is_remote


@dataclass(frozen=True)
class Reading:
    """A table that a projection reads.

    Attributes:
        table: Which.
        version: The number, label or ``@17`` that is asked for; None for the head.
        timestamp: The time whose state is asked for.
        maker: The projection that makes the table, where one does.
    """

    table: TableName
    version: str | None = None
    timestamp: str | None = None
    maker: str | None = None

    def __str__(self) -> str:
        if self.timestamp is not None:
            return f"{self.table} at {self.timestamp}"
        return str(TableRef(self.table, self.version))


@dataclass(frozen=True)
class Graph:
    """Projections, and what they read.

    Attributes:
        projections: Each behind those that make what it reads, else as they are declared.
        readings: What each reads, by its name.
    """

    projections: tuple[Projection, ...]
    readings: Mapping[str, tuple[Reading, ...]]

    def get(self, name: str) -> Projection:
        """Return one projection.

        Raises:
            UsageError: There is none of this name.
        """
        for one in self.projections:
            if one.name == name:
                return one
        known = [one.name for one in self.projections]
        raise UsageError(f"no projection {name!r} is declared: {offer(name, known)}")

    def makers(self, name: str) -> tuple[str, ...]:
        """The projections that make what one reads."""
        made = (one.maker for one in self.readings[name])
        return tuple(dict.fromkeys(maker for maker in made if maker is not None))

    def with_makers(self, wanted: Iterable[str]) -> tuple[Projection, ...]:
        """Return projections, and all that make what these read, in the order of running.

        Raises:
            UsageError: There is no projection of one of these names.
        """
        needed: set[str] = set()
        ahead = [self.get(name).name for name in wanted]
        while ahead:
            name = ahead.pop()
            if name not in needed:
                needed.add(name)
                ahead += self.makers(name)
        return tuple(one for one in self.projections if one.name in needed)

    def readers(self, name: str) -> tuple[str, ...]:
        """The projections that read what one makes."""
        return tuple(one.name for one in self.projections if name in self.makers(one.name))


def graph(lake: Lake, projections: Sequence[Projection]) -> Graph:
    """Check projections as a whole, and put them in the order in which they can run.

    Args:
        lake: The lake whose tables they read.
        projections: As they are declared.

    Raises:
        NotFoundError: One reads a table that neither the lake has nor another one makes.
        UsageError: Two have one name, one staging table or one destination; one publishes into
            the lake; or they read each other in a circle.
    """
    _check_outside(lake.store.uri, projections)
    return arranged(lake.tables(), projections)


def arranged(tables: Collection[TableName], projections: Sequence[Projection]) -> Graph:
    """Do the same for a lake of these tables."""
    _check_names(projections)
    _check_destinations(projections)
    makers = {one.stage: one.name for one in projections if one.stage is not None}
    known = _Tables({*tables, *makers})
    readings = {one.name: _readings(one, known, makers) for one in projections}
    for one in projections:
        if one.stage is not None and any(reads.maker == one.name for reads in readings[one.name]):
            raise _wrong(one, f"reads {one.stage}, its own staging table")
    return Graph(_in_order(projections, readings), readings)


def _wrong(one: Projection, text: str) -> UsageError:
    return UsageError(f"{_with_place(one)} {text}")


def _with_place(one: Projection) -> str:
    return f"{one.name} ({one.where})" if one.where else one.name


def _check_names(projections: Sequence[Projection]) -> None:
    named: dict[str, Projection] = {}
    staged: dict[TableName, Projection] = {}
    for one in projections:
        if (other := named.setdefault(one.name, one)) is not one:
            both = f": {other.where} and {one.where}" if one.where else ""
            raise UsageError(f"there are two projections {one.name}{both}")
        if one.stage is not None and (other := staged.setdefault(one.stage, one)) is not one:
            both = f"{_with_place(other)} and {_with_place(one)}"
            raise UsageError(f"{both} have the same staging table: {one.stage}")


def _location(uri: str) -> str:
    """A location as it is compared with others: with a slash at its end."""
    return f"{uri.rstrip('/')}/" if is_remote(uri) else f"{os.path.realpath(uri)}/"


def _check_destinations(projections: Sequence[Projection]) -> None:
    published = [(_location(one.target.uri), n) for n, one in enumerate(projections) if one.target]
    # What lies inside of another comes right behind it, or behind others inside of it.
    for (outer, first), (inner, second) in pairwise(sorted(published)):
        if not inner.startswith(outer):
            continue
        earlier, later = (projections[n] for n in sorted((first, second)))
        both = f"{_with_place(earlier)} and {_with_place(later)}"
        if inner == outer:
            raise UsageError(f"{both} have the same destination: {outer}")
        raise UsageError(f"one destination of {both} is inside the other: {outer} and {inner}")
    tables: dict[tuple[str, ...], Projection] = {}
    for one in projections:
        if one.target is None or one.target.format is not Format.ICEBERG or not one.target.catalog:
            continue
        catalog = sorted(f"{name}={value}" for name, value in one.target.catalog.items())
        table = one.target.identifier or one.name
        other = tables.setdefault((*catalog, table), one)
        if other is not one:
            both = f"{_with_place(other)} and {_with_place(one)}"
            raise UsageError(f"{both} have the same table in the catalog: {table}")


def _check_outside(lake: str, projections: Sequence[Projection]) -> None:
    inside = _location(lake)
    for one in projections:
        if one.target is not None and _location(one.target.uri).startswith(inside):
            raise _wrong(one, f"would be published inside the lake, at {one.target.uri}")


class _Tables:
    """Tables by what they are like, so that a thousand names need not each be held against all."""

    def __init__(self, known: Collection[TableName]) -> None:
        self._known = known
        self._like: dict[str, list[TableName]] = {}
        for table in known:
            self._like.setdefault(bare(str(table)), []).append(table)

    def find(self, parts: tuple[str, ...]) -> tuple[TableName, str | None]:
        """Find what a name in SQL means."""
        like = [self._like.get(bare(".".join(some)), []) for some in (parts, parts[:-1])]
        return find(parts, [*like[0], *like[1]] or self._known)


def _readings(
    one: Projection, known: _Tables, makers: Mapping[TableName, str]
) -> tuple[Reading, ...]:
    readings = []
    for text in one.sources:
        named = reference(text)
        try:
            table, version = known.find(named.parts)
        except SingerlakeError as error:
            raise type(error)(f"{_with_place(one)}: {error}") from None
        if version is not None and (named.version or named.timestamp):
            raise _wrong(one, f"names two versions of {table} at once")
        readings.append(
            Reading(table, version or named.version, named.timestamp, makers.get(table))
        )
    return tuple(dict.fromkeys(readings))


def _in_order(
    projections: Sequence[Projection], readings: Mapping[str, tuple[Reading, ...]]
) -> tuple[Projection, ...]:
    by_name = {one.name: one for one in projections}
    made = {
        name: [reading.maker for reading in those if reading.maker is not None]
        for name, those in readings.items()
    }
    done: dict[str, Projection] = {}
    for first in by_name:
        path = [first]
        while path:
            ahead = [maker for maker in made[path[-1]] if maker not in done]
            if not ahead:
                name = path.pop()
                done[name] = by_name[name]
            elif ahead[0] in path:
                raise _circle(by_name, path[path.index(ahead[0]) :])
            else:
                path.append(ahead[0])
    return tuple(done.values())


def _circle(by_name: Mapping[str, Projection], path: Sequence[str]) -> UsageError:
    steps = [
        f"{name} reads {by_name[other].stage} of {other}"
        for name, other in zip(path, [*path[1:], path[0]], strict=True)
    ]
    return _wrong(by_name[path[0]], f"has a cyclic dependency: {', '.join(steps)}")
