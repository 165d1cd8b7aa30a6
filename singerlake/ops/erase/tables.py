"""Erase: rows of several tables go for good, and what is published of these is published again.

It erases rows of all tables or of none, as far as can be told before anything is written. All that
can be checked without reading rows is checked first, before Java starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.folding import restored
from singerlake.log.table_state import TableState
from singerlake.ops.erase import earlier, obstacles
from singerlake.ops.erase import plan as plans
from singerlake.ops.erase import table as one_table
from singerlake.ops.erase.earlier import Earlier
from singerlake.ops.erase.obstacles import Obstacle
from singerlake.ops.erase.plan import Erased as ErasedTable
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import Clear, EraseRequest, engine_for
from singerlake.ops.publish.answers import needs_spark
from singerlake.ops.publish.renew import renew
from singerlake.ops.sign.sign import SignedVersion, Signer, sign
from singerlake.publish.renewals import Renewals, erasures, is_due, renewals

if TYPE_CHECKING:
    from singerlake.ops.publish.outcome import Outcome


@dataclass(frozen=True)
class Erased:
    """The result of an erasure for rows, and for their published copies.

    Attributes:
        tables: What was done to each table.
        published: What was published again; in a dry run, nothing.
        due: The projections that were, or would be, published again.
        left: Tables of this run that still have such rows: the condition that was given for
            them did not hold for all of these.
        earlier: What the bucket keeps of the tables' objects from before, where it keeps that.
        signed: The versions of the tables with the signatures that were asked for.
        unsigned: Why a table's versions could not be signed.
        ids: The ids of the rows, by table, unless they were too many to be searched for. They are
            for a search, and are not printed.
        certificate: The content of the certificate, if one was written: ``complete`` in it is
            whether the search found nothing either.
    """

    tables: Mapping[TableName, ErasedTable]
    published: Sequence[Outcome] = ()
    due: Sequence[str] = ()
    left: Sequence[TableName] = ()
    earlier: Sequence[Earlier] = ()
    signed: Mapping[TableName, Sequence[SignedVersion]] = field(default_factory=dict)
    unsigned: Mapping[TableName, SingerlakeError] = field(default_factory=dict)
    ids: Mapping[TableName, Sequence[str]] = field(default_factory=dict, repr=False)
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)

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
        done = done and not (self.left or self.unsigned)
        done = done and not any(one.left for one in self.tables.values())
        return done and not any(one.objects for one in self.earlier)


def requests(
    lake: Lake, tables: Mapping[str, str | None], ids: Collection[str], where: str | None
) -> list[EraseRequest]:
    """Find the tables whose rows are to be erased.

    Args:
        tables: Their names, each with its own condition, or None.
        ids: Where it has none, the rows' ids.
        where: Or the condition.

    Raises:
        NotFoundError: There is no such table.
        UsageError: One names a version.
    """
    found = []
    for name, own in tables.items():
        table, ref = lake.find(name)
        if ref.version is not None:
            raise UsageError(
                f"{ref} is a version: rows are erased from the whole table, so name the table"
            )
        same = EraseRequest(table, tuple(ids), where)
        found.append(same if own is None else EraseRequest(table, (), own))
    return found


def erase(
    lake: Lake,
    asked: Sequence[EraseRequest],
    options: EraseOptions,
    choice: EngineChoice | None = None,
    *,
    words: bool = True,
    projections: Path | None = None,
) -> Erased:
    """Erase rows of tables, then publish again what is published of these.

    Args:
        asked: Which rows, of each table.
        choice: What may read and write the tables' files.
        words: Whether words in log entries that name a row are a reason to refuse.
        projections: Where projections are declared; ``projections.yml`` by default.

    Raises:
        UsageError: It cannot be done as asked, or something has to be done first; nothing was
            changed.
        RuntimeMissingError: Spark is needed, and it or Java is not installed; nothing was changed.
        SingerlakeError: A table's rows could not be erased. Tables before it in the list are done;
            run it again.
    """
    job = _Job(lake, asked, options, words, projections)
    job.check()
    return job.run(choice or EngineChoice())


@dataclass
class _Job:
    """One run: first :meth:`check`, then :meth:`run`."""

    lake: Lake
    asked: Sequence[EraseRequest]
    options: EraseOptions
    words: bool
    file: Path | None
    _heads: dict[TableName, TableState] = field(default_factory=dict)
    _dropped: set[TableName] = field(default_factory=set)
    _ids: dict[TableName, Sequence[str]] = field(default_factory=dict)
    _related: dict[TableName, list[TableName]] = field(default_factory=dict)
    _renewals: Renewals = field(default_factory=Renewals)

    @property
    def _names(self) -> list[TableName]:
        return [one.table.name for one in self.asked]

    def check(self) -> None:
        """Look, without reading rows, for what cannot be done, and for what is in the way.

        Raises:
            UsageError: There is something; nothing was changed.
            SingerlakeError: It cannot be looked for.
        """
        self.options.check()
        for one in self.asked:
            if self._names.count(one.table.name) > 1:
                raise UsageError(f"{one.table.name} is named twice: name all its rows at once")
            head = one.table.snapshot(dropped=True)
            plans.check_erasable(head, self.options)
            self._heads[one.table.name] = restored(head)
            if head.dropped_at:
                self._dropped.add(one.table.name)
        self._check_same_keys()
        self._find_published()
        found = [
            Obstacle(
                f"the published copy {one.name}"
                # Without a declaration, its name is where it is.
                f"{'' if one.name == one.to else f' at {one.to}'} cannot be rebuilt: {one.why}",
                "name the file that declares it with --projections FILE, or: singerlake unpublish "
                f"{one.name} --delete; publish it again when the rows are erased",
            )
            for one in self._renewals.stuck
        ]
        for one in self.asked:
            if one.ids and self._heads[one.table.name].key:
                obstacles.check_reason(self.options.reason, one.ids)
                found += self._in_the_way(one, self._heads[one.table.name], one.ids)
                self._ids[one.table.name] = one.ids
        obstacles.refuse(self._names, found)

    def _check_same_keys(self) -> None:
        """Make sure that the tables have one key, because ids mean the same rows only then.

        Raises:
            UsageError: They have not.
        """
        first, *others = self.asked
        key = self._heads[first.table.name].schema.key_properties
        for one in others:
            own = self._heads[one.table.name].schema.key_properties
            if one.ids and (not key or own != key):
                raise UsageError(
                    f"rows of {one.table.name} go by {_listed(own)}, those of {first.table.name} "
                    f"by {_listed(key)}, so an id is not the same in both: use --table "
                    f"'{one.table.name} where …'"
                )

    def _find_published(self) -> None:
        tables = {*self._names}
        for name in self._names:
            self._related[name] = obstacles.related(self.lake, name)
            tables |= {*self._related[name]}
        self._renewals = renewals(self.lake, tables, self.file, self._dropped)

    def _in_the_way(
        self, one: EraseRequest, head: TableState, ids: Sequence[str] | None
    ) -> list[Obstacle]:
        others = [name for name in self._related[head.table] if name not in self._names]
        return obstacles.of_rows(self.lake, one.table, head, ids, words=self.words, others=others)

    def run(self, choice: EngineChoice) -> Erased:
        """Erase, then publish again what is published."""
        choice = self._with_spark_to_publish(choice)
        engines: list[Engine[Any]] = []
        for one in self.asked:  # of all tables, before the first is changed
            before = engines[-1] if engines else None
            engines.append(engine_for(choice, one, self._heads[one.table.name], before))
        pairs = [*zip(self.asked, engines, strict=True)]
        for one, engine in pairs if len(self.asked) > 1 else ():
            if one.table.name not in self._ids:  # only a look at all rows tells which are meant
                clear = self._clear(one)
                one_table.look_for(one, self.options, choice, engine=engine, clear=clear)
        done = {
            one.table.name: one_table.erase(
                one, self.options, choice, engine=engine, clear=self._clear(one)
            )
            for one, engine in pairs
        }
        if self.options.dry_run:
            return Erased(done, due=self._due(would=done))
        due = self._due()
        published = self._renewed(choice) if due else []
        signed, unsigned = self._sign()
        return Erased(
            done, published, due, self._left(), self._earlier(done), signed, unsigned, self._ids
        )

    def _sign(
        self,
    ) -> tuple[dict[TableName, list[SignedVersion]], dict[TableName, SingerlakeError]]:
        """Sign what the last erasure left of versions, also if that was a run that died."""
        signed: dict[TableName, list[SignedVersion]] = {}
        unsigned: dict[TableName, SingerlakeError] = {}
        if (signer := self.options.signer) is None:
            return signed, unsigned
        for one in self.asked:
            try:
                signed[one.table.name] = sign_erased(one.table, signer)
            except SingerlakeError as error:
                unsigned[one.table.name] = error
        return signed, unsigned

    def _with_spark_to_publish(self, choice: EngineChoice) -> EngineChoice:
        """Choose Spark if it is needed at the end; it has to be there before rows are erased.

        Raises:
            UsageError: What is published has to be computed by Spark, and only this process may be
                used.
        """
        needed = [one.name for one in self._renewals.to_run if needs_spark(choice, self.lake, one)]
        if not needed:
            return choice
        if choice.name == LOCAL:
            raise UsageError(
                f"{', '.join(needed)}: these published copies can only be rebuilt by Spark: use "
                "the engine auto or spark"
            )
        return choice if self.options.dry_run else replace(choice, name=SPARK)

    def _clear(self, one: EraseRequest) -> Clear:
        """Return what looks for rows elsewhere once they are found; once is enough."""

        def clear(head: TableState, ids: Sequence[str] | None) -> None:
            if one.table.name not in self._ids:
                obstacles.refuse(self._names, self._in_the_way(one, head, ids))
                self._ids[one.table.name] = ids or ()

        return clear

    def _due(self, would: Mapping[TableName, ErasedTable] | None = None) -> list[str]:
        """The projections that may show rows from before an erasure."""
        found: list[str] = []
        going = {name for name, one in (would or {}).items() if one.lines}
        for name in self._renewals.names:
            tables = self._renewals.tables_of(name)
            if going & tables or is_due(self.lake, name, erasures(self.lake, tables)):
                found.append(name)
        return found

    def _renewed(self, choice: EngineChoice) -> list[Outcome]:
        return [*renew(self.lake, self._renewals, choice)]

    def _earlier(self, done: Mapping[TableName, ErasedTable]) -> list[Earlier]:
        """List what the bucket keeps of tables that rows were erased from, after all else."""
        if self.options.earlier_versions:
            found = [earlier.delete(self.lake.store, name) for name in done]
        else:
            erased = [name for name, one in done.items() if one.transaction or one.files_deleted]
            found = [earlier.look(self.lake.store, name) for name in erased]
        return [one for one in found if one.objects or one.deleted or one.why]

    def _left(self) -> list[TableName]:
        found: set[TableName] = set()
        for one in self.asked:
            ids, head = self._ids.get(one.table.name, ()), self._heads[one.table.name]
            others = [name for name in self._related[head.table] if name in self._names]
            found |= {*obstacles.left_in(self.lake, head, ids, others)}
        return sorted(found)


def sign_erased(table: Table, signer: Signer) -> list[SignedVersion]:
    """Sign the versions that the last erasure took rows from.

    Raises:
        SingerlakeError: The signer failed, or the store.
    """
    head = table.snapshot(dropped=True)
    if head.dropped_at:
        return []
    names = [
        str(one.number)
        for one in head.frozen
        if one.erased and one.erased[-1].transaction == head.erased_at
        if not one.only_against_accident
    ]
    return [sign(table.store, table.snapshot(), name, signer) for name in names]


def _listed(key: Sequence[str]) -> str:
    return ", ".join(key) or "their places"
