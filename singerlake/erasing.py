"""Erasing rows of tables: of all or of none, as far as can be told before anything is written.

What Spark is not needed for is checked before it starts, and of all tables before the first is
changed. What is published of them is published anew behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from singerlake import reverting
from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.lake import Table as PlainTable
from singerlake.publishing import session_for
from singerlake.transactions.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.erasure.earlier import Earlier
    from singerlake.erasure.obstacles import Obstacle
    from singerlake.maintenance.erase import Erased as OfTable
    from singerlake.maintenance.erase import EraseOptions
    from singerlake.projections.publishing import Outcome
    from singerlake.projections.renewals import Renewals
    from singerlake.spark.jobs.maintenance.erase import Clear

Start: TypeAlias = "Callable[[], SparkSession]"


@dataclass(frozen=True)
class Asked:
    """Which rows of a table are to be erased: by their ids, or by a condition.

    Attributes:
        table: The table.
        ids: As ``_row_id`` shows them.
        where: A condition in SQL; a row is meant if it held for the row as it was at any time.
    """

    table: PlainTable
    ids: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class Erased:
    """What became of rows, and of what was published of them.

    Attributes:
        tables: What was done to each table.
        published: What was published anew; in a dry run, nothing.
        due: The projections that were, or would be, published anew.
        left: Tables of this run that still have such rows: the condition that was given for
            them did not hold for all of these.
        earlier: What the bucket keeps of the tables' objects from before, where it keeps that.
    """

    tables: Mapping[TableName, OfTable]
    published: Sequence[Outcome] = ()
    due: Sequence[str] = ()
    left: Sequence[TableName] = ()
    earlier: Sequence[Earlier] = ()

    @property
    def found(self) -> bool:
        """Whether there was any such row, or something to delete of an erasure that died."""
        tables = self.tables.values()
        did = any(one.transaction or one.lines or one.files_deleted for one in tables)
        did = did or any(one.blocked for one in tables) or bool(self.published)
        return did or any(one.deleted for one in self.earlier)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        done = all(one.error is None for one in self.published)
        done = done and not self.left and not any(one.left for one in self.tables.values())
        return done and not any(one.objects for one in self.earlier)


@dataclass
class Erasing:
    """One run: first :meth:`check`, then :meth:`run`.

    Attributes:
        lake: The lake.
        asked: Which rows, of each table.
        options: How, and why.
        words: Whether words in log entries are in the way.
        file: Where projections are declared; ``projections.yml`` by default.
    """

    lake: Lake
    asked: Sequence[Asked]
    options: EraseOptions
    words: bool = True
    file: Path | None = None
    _heads: dict[TableName, Snapshot] = field(default_factory=dict)
    _dropped: set[TableName] = field(default_factory=set)
    _ids: dict[TableName, Sequence[str]] = field(default_factory=dict)
    _related: dict[TableName, list[TableName]] = field(default_factory=dict)
    _renewals: Renewals | None = None

    @property
    def _names(self) -> list[TableName]:
        return [one.table.name for one in self.asked]

    def check(self) -> None:
        """Look, without Spark, for what cannot be done, and for what is in the way.

        Raises:
            UsageError: There is something; nothing was changed.
            SingerlakeError: It cannot be looked for.
        """
        from singerlake.erasure import obstacles
        from singerlake.erasure.obstacles import Obstacle
        from singerlake.maintenance.erase import check_erasable
        from singerlake.transactions.folding import restored

        self.options.check()
        for one in self.asked:
            if self._names.count(one.table.name) > 1:
                raise UsageError(f"{one.table.name} is named twice: say all its rows at once")
            head = one.table.snapshot(dropped=True)
            check_erasable(head, self.options)
            self._heads[one.table.name] = restored(head)
            if head.dropped_at:
                self._dropped.add(one.table.name)
        self._check_same_keys()
        found = [
            Obstacle(
                f"{one.name} is published of it at {one.to}, and cannot be published anew: "
                f"{one.why}",
                "name the file that declares it with --projections FILE, or: singerlake unpublish "
                f"{one.name} --delete; publish it anew when the rows are erased",
            )
            for one in self._find_published().stuck
        ]
        for one in self.asked:
            if one.ids and self._heads[one.table.name].key:
                obstacles.check_reason(self.options.reason, one.ids)
                found += self._in_the_way(one, self._heads[one.table.name], one.ids)
                self._ids[one.table.name] = one.ids
        obstacles.refuse(self._names, found)

    def _check_same_keys(self) -> None:
        """Ids mean the same rows in several tables only where these have one key.

        Raises:
            UsageError: They have not.
        """
        first, *others = self.asked
        key = self._heads[first.table.name].schema.key_properties
        for one in others:
            own = self._heads[one.table.name].schema.key_properties
            if one.ids and (not key or own != key):
                raise UsageError(
                    f"rows of {one.table.name} go by {_listed(own)}, those of "
                    f"{first.table.name} by {_listed(key)}, so one id is not both: say "
                    f"--also '{one.table.name} where …'"
                )

    def _find_published(self) -> Renewals:
        from singerlake.erasure import obstacles
        from singerlake.projections.renewals import renewals

        tables = {*self._names}
        for name in self._names:
            self._related[name] = obstacles.related(self.lake, name)
            tables |= {*self._related[name]}
        self._renewals = renewals(self.lake, tables, self.file, self._dropped)
        return self._renewals

    def _in_the_way(self, one: Asked, head: Snapshot, ids: Sequence[str] | None) -> list[Obstacle]:
        from singerlake.erasure import obstacles

        others = [name for name in self._related[head.table] if name not in self._names]
        return obstacles.of_rows(self.lake, one.table, head, ids, words=self.words, others=others)

    def run(self, start: Start) -> Erased:
        """Erase, then publish anew what is published.

        Args:
            start: Gives the Spark session.

        Raises:
            SingerlakeError: A table's rows could not be erased, or something is in the way.
                Tables before it in the list are done; run it again.
        """
        from singerlake.spark.jobs.maintenance.erase import erase, look_for
        from singerlake.spark.jobs.maintenance.erased_lines import AskedRows

        def job(one: Asked) -> tuple[Start, PlainTable, AskedRows, EraseOptions]:
            return start, one.table, AskedRows(one.ids, one.where), self.options

        for one in self.asked if len(self.asked) > 1 else ():
            if one.table.name not in self._ids:  # only Spark finds what the condition means
                look_for(*job(one), clear=self._clear(one))
        done = {one.table.name: erase(*job(one), clear=self._clear(one)) for one in self.asked}
        if self.options.dry_run:
            return Erased(done, due=self._due(would=done))
        due = self._due()
        published = self._renewed(start) if due else []
        return Erased(done, published, due, self._left(), self._earlier(done))

    def _clear(self, one: Asked) -> Clear:
        """What looks for rows elsewhere once Spark has found them; once is enough."""
        from singerlake.erasure import obstacles

        def clear(head: Snapshot, ids: Sequence[str] | None) -> None:
            if one.table.name not in self._ids:
                obstacles.refuse(self._names, self._in_the_way(one, head, ids))
                self._ids[one.table.name] = ids or ()

        return clear

    def _due(self, would: Mapping[TableName, OfTable] | None = None) -> list[str]:
        """The projections that may show rows from before an erasure."""
        from singerlake.projections.renewals import erasures, is_due

        found: list[str] = []
        going = {name for name, one in (would or {}).items() if one.lines}
        if self._renewals is None:
            return found
        for name in self._renewals.names:
            tables = self._renewals.tables_of(name)
            if going & tables or is_due(self.lake, name, erasures(self.lake, tables)):
                found.append(name)
        return found

    def _renewed(self, start: Start) -> list[Outcome]:
        from singerlake.spark.jobs.publishing.renew import renew

        assert self._renewals is not None  # noqa: S101  # something is due
        return [*renew(start(), self.lake, self._renewals)]

    def _earlier(self, done: Mapping[TableName, OfTable]) -> list[Earlier]:
        """What the bucket keeps of tables that rows were erased from, behind all else."""
        from singerlake.erasure import earlier

        if self.options.earlier_versions:
            found = [earlier.delete(self.lake.store, name) for name in done]
        else:
            erased = [name for name, one in done.items() if one.transaction or one.files_deleted]
            found = [earlier.look(self.lake.store, name) for name in erased]
        return [one for one in found if one.objects or one.deleted or one.why]

    def _left(self) -> list[TableName]:
        from singerlake.erasure import obstacles

        found: set[TableName] = set()
        for one in self.asked:
            ids, head = self._ids.get(one.table.name, ()), self._heads[one.table.name]
            others = [name for name in self._related[head.table] if name in self._names]
            found |= {*obstacles.left_in(self.lake, head, ids, others)}
        return sorted(found)


def _listed(key: Sequence[str]) -> str:
    return ", ".join(key) or "their places"


class Table(reverting.Table):
    """One stream of one tap, whose rows can be erased."""

    def erase(
        self,
        ids: Iterable[object] = (),
        *,
        reason: str,
        where: str | None = None,
        also: Mapping[str, str | None] | None = None,
        projections: str | Path | None = None,
        leave_words: bool = False,
        tell: timedelta | None = None,
        block: bool = False,
        earlier_versions: bool = False,
        wait: float = 600.0,
        dry_run: bool = False,
        spark: SparkSession | None = None,
    ) -> Erased:
        """Erase rows for good, with all that they ever were, on Spark. It cannot be taken back.

        ::

            lake["tap-shop.customers"].erase(
                ["17"], reason="request 12", also={"tap-shop.orders": "customer_id = 17"}
            )

        Args:
            ids: Their ids, as ``_row_id`` shows them.
            reason: Why: the log keeps it, so do not name the person.
            where: Instead of ids, a condition in SQL that held for them at any time.
            also: More tables, each with the condition for its rows; None for the same ids or the
                same condition.
            projections: Where projections are declared; ``projections.yml`` by default.
            leave_words: Even if words in log entries name a row.
            tell: For how long taps that are behind tell their targets to delete the rows.
            block: Leave out whatever comes with these keys again.
            earlier_versions: Delete what the bucket keeps of the tables' objects from before, too.
            wait: How many seconds to wait for readers that may need what is to be deleted.
            dry_run: Only find out what would be done.
            spark: The session; the running one by default, or a new one.

        Returns:
            What was done to each table, and what was published anew. It ``is_done`` if nothing is
            left to do; where nothing was ``found``, there were no such rows.

        Raises:
            UsageError: Something is in the way, or is not said; nothing was changed.
            NotFoundError: There is no such table.
            ConflictError: A vacuum is at work, or others write such rows meanwhile.
            DamagedError: A version would not be what it should; nothing was changed.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.maintenance.erase import EraseOptions

        if isinstance(ids, str):
            raise UsageError("give a list of ids, even where it is one")
        said = tuple(dict.fromkeys(map(str, ids)))
        if bool(said) == (where is not None):
            raise UsageError("say which rows: by their ids, or by a condition with where")
        lake = Lake(self.store)
        asked = [Asked(self, said, where), *asked_too(lake, also or {}, said, where)]
        telling = 0.0 if tell is None else tell.total_seconds()
        options = EraseOptions(
            reason, dry_run, telling, block, earlier_versions, lease_wait_seconds=wait
        )
        file = None if projections is None else Path(projections)
        erasing = Erasing(lake, asked, options, words=not leave_words, file=file)
        erasing.check()
        return erasing.run(lambda: session_for(spark, "erasing rows"))


def asked_too(
    lake: Lake, also: Mapping[str, str | None], ids: Collection[str], where: str | None
) -> list[Asked]:
    """Find more tables whose rows are to be erased.

    Args:
        lake: The lake.
        also: Their names, each with its own condition, or None.
        ids: Where it has none, the rows' ids.
        where: Or the condition.

    Raises:
        NotFoundError: There is no such table.
        UsageError: One names a version.
    """
    found = []
    for name, own in also.items():
        table, ref = lake.find(name)
        if ref.version is not None:
            raise UsageError(
                f"{ref} is a version: rows go from all of the table, so name that alone"
            )
        same = Asked(table, tuple(ids), where)
        found.append(same if own is None else Asked(table, (), own))
    return found
