"""The rows of one projection, brought to its destination: the head, and versions beside it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from singerlake.engine.choice import EngineChoice
from singerlake.errors import InvalidQueryError, SingerlakeError, UsageError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Lake
from singerlake.lineage import LineageRun
from singerlake.log.table_state import TableState
from singerlake.ops.publish.answer import Answer
from singerlake.ops.publish.answers import opened
from singerlake.ops.publish.outcome import PublishedRows, PublishOptions, RefreshKind
from singerlake.ops.publish.publisher import DryRun, Run
from singerlake.ops.publish.write.increments import Increment
from singerlake.ops.publish.write.published_files import check_columns
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.positions import behind, due, is_same_table, state_of
from singerlake.publish.projection import OnSchemaChange, Projection, Target
from singerlake.publish.published import Commit, Position, SourceState
from singerlake.publish.versions import not_published, rows_query, versioned_table
from singerlake.quantities import repeated

if TYPE_CHECKING:
    from singerlake.ops.publish.stage import Staged

logger = logging.getLogger(__name__)


@dataclass
class _Done:
    """The work done so far, for display."""

    why: str = ""
    full: bool = False
    why_full: str = ""
    versions: list[int] = field(default_factory=list)


class PublishRows:
    """Publishes the rows of one projection.

    Args:
        telling: Who is told what was read and written.
        choice: What may read rows.

    Raises:
        UsageError: Something else lies at the destination.
        DamagedError: What lies there cannot be read.
    """

    def __init__(
        self,
        lake: Lake,
        projection: Projection,
        target: Target,
        options: PublishOptions,
        telling: LineageRun,
        choice: EngineChoice,
    ) -> None:
        self._telling = telling
        self._choice = choice
        self._lake = lake
        self._projection = projection
        self._target = target
        self._options = options
        self._sql = rows_query(projection)
        self._destination = open_destination(projection)
        self._base = self._destination.published()
        self._done = _Done()
        how = DryRun if options.dry_run else Run
        self._out = how(projection, self._destination)

    def run(self, staged: Staged | None) -> PublishedRows | None:
        """Publish what is not there yet.

        Args:
            staged: What became of the staging table just now.

        Returns:
            What was done, or would be; None where all is up to date.

        Raises:
            SingerlakeError: It cannot be done; nothing that readers see has changed.
        """
        if self._options.dry_run and staged is not None and staged.is_change:
            return self._after(staged)
        head, wanted = self._versions()
        for version in wanted:
            assert head is not None  # noqa: S101  # there are no versions without a table
            self._publish_version(head, version)
        if not self._options.of_a_version:
            self._publish_head()
        if not (self._done.why or self._done.versions):
            return None
        self._sweep()
        return self._told()

    def _told(self) -> PublishedRows:
        base, done, asked = self._base, self._done, self._options.dry_run
        return PublishedRows(
            to=self._destination.store.uri,
            format=str(self._target.format),
            why=done.why,
            full=done.full,
            why_full=done.why_full if done.full else "",
            rows=None if base is None or asked else base.rows,
            files=None if base is None or asked else len(base.files),
            written=self._out.written,
            changed=None if done.full else self._out.changed,
            versions=tuple(done.versions),
        )

    def _after(self, staged: Staged) -> PublishedRows:
        """Return what would be written after an update of the staging table that is to come."""
        done, out, changed = self._done, self._out, staged.changed
        done.why, why = f"{staged.projection.stage} changes", self._why_full_after(staged)
        wanted: Sequence[FrozenVersion] = ()
        now, up_to_date = 0, False
        if staged.how is not RefreshKind.CREATED:
            _, wanted = self._versions()
            up_to_date = self._base is not None and self._due() is None
            if why is not None and not wanted:
                with self._asked(None) as asked:
                    now = asked.count()
        done.full, done.why_full = why is not None, why or ""
        done.versions = [version.number for version in wanted]
        known = done.full and not wanted
        out.written = now + changed.inserted - changed.deleted if known else None
        rows = changed.inserted + changed.updated + changed.deleted
        out.changed = rows if up_to_date else None
        return self._told()

    def _why_full_after(self, staged: Staged) -> str | None:
        """Explain why all rows would be written then; None if those that changed would do."""
        table, base = staged.projection.stage, self._base
        if base is None or (why := self._why_all()) is not None:
            return "" if base is None else why
        if staged.how is RefreshKind.CREATED:
            return f"{table} is not the same table that was read before"
        if staged.columns:
            return f"the columns of {table} have changed since the last refresh"
        with self._asked(None) as asked:
            self._schema(asked)
            if (why := self._obstacle(asked)) is not None:
                return why
        return None if self._projection.key or not base.rows else "rows without a key were deleted"

    def _versions(self) -> tuple[TableState | None, list[FrozenVersion]]:
        """The head of the table whose versions are wanted, and those that are not there yet."""
        if not self._options.of_a_version and not self._projection.versions:
            return None, []
        head = versioned_table(self._lake, self._projection).snapshot()
        at = self._options.version_of(head.table)
        missing = not_published(head, self._base)
        if at is None:
            return head, missing
        named, _ = head.named(at)
        if named is None:
            raise UsageError(f"{at} is not a version of {head.table}: freeze it first")
        return head, [version for version in missing if version.number == named.number]

    def _due(self) -> str | None:
        if self._options.full_refresh:
            return "it was requested"
        position = None if self._base is None else self._base.position
        return due(self._lake, position, self._projection)

    def _why_all(self) -> str | None:
        """Explain why all rows are written whatever the SQL is; empty if that was said before."""
        base, projection = self._base, self._projection
        if base is None or self._options.full_refresh:
            return ""
        if not projection.incremental:
            return "it is not incremental"
        return "" if projection.changed_since(base.position.definition) else None

    def _obstacle(self, asked: Answer[Any]) -> str | None:
        """Explain, in a clause, why all rows are written; None if those that changed will do."""
        if (why := self._why_all()) is not None or self._base is None:
            return why
        return asked.obstacle(self._base.position.sources)

    def _publish_head(self, at: FrozenVersion | None = None) -> None:
        """Bring what readers see to the tables' heads.

        Args:
            at: Bring it to this version of the only table instead, on the way there.
        """
        why = self._due()
        if why is None:
            return
        with self._asked(at) as asked:
            base = self._base
            self._check_sql(asked)
            schema = self._schema(asked)
            found = self._increment(asked, schema)
            same_rows = found is not None and found.is_empty
            if found is None:
                files = self._out.all_rows(asked, schema)
                removed = () if base is None else base.files
                found = Increment((), files, removed)
                self._done.full = True
            if not same_rows:
                self._done.why = self._done.why or why
            # Where other transactions left the same rows, the position alone moves: else all runs
            # to come would compare these again.
            sources = asked.sources
            # A head on its way is a head: what is due is told by the transaction, not the version.
            if at is not None:
                sources = tuple(replace(source, version=None) for source in sources)
            position = replace(self._own_position(), sources=sources)
            commit = Commit(position, schema, found.kept, found.added, found.removed)
            self._base = self._out.commit(base, commit)
            if at is None:
                self._tell(asked, schema)

    def _tell(self, asked: Answer[Any], schema: pa.Schema) -> None:
        """Tell what was read, and what of it lies at the destination."""
        for state in asked.states:
            self._telling.read(state)
        columns = [(one.name, str(one.type)) for one in schema]
        uri = self._destination.store.uri
        self._telling.published(uri, columns, self._out.written or 0, asked.lineage)

    def _increment(self, asked: Answer[Any], schema: pa.Schema) -> Increment | None:
        """Write only what changed; None where all has to be written."""
        if (obstacle := self._obstacle(asked)) is not None or self._base is None:
            self._note_full(obstacle or "")
            return None
        found = self._out.increment(asked, self._base, schema)
        if found.full_build:
            self._note_full(found.full_build)
            return None
        return found

    def _note_full(self, why: str) -> None:
        """Note why all rows are written; the first reason stays if several commits do."""
        if not self._done.full:
            self._done.why_full = why

    def _publish_version(self, head: TableState, version: FrozenVersion) -> None:
        """Publish a frozen version.

        Where readers see a state before it, they are brought to it first: then the version is
        another name for what is there. An earlier one is written beside what they see.
        """
        _, then = head.named(str(version.number))
        if self._is_on_the_way(head, then):
            self._publish_head(version)
        base = self._base
        assert base is not None  # noqa: S101  # an empty place was on the way
        state = state_of(then, version.number)
        position = replace(self._own_position(), sources=(state,))
        if self._shows(then):
            commit = Commit(position, base.schema, base.files, (), version=version.number)
        else:
            with self._asked(version) as asked:
                schema = self._schema(asked)
                files = self._out.all_rows(asked, schema)
            commit = Commit(position, schema, (), files, version=version.number)
        self._base = self._out.commit(base, commit)
        self._done.versions.append(version.number)

    def _state(self) -> SourceState | None:
        """The state that readers see, where it is of one table by today's definition."""
        base = self._base
        if base is None or self._projection.changed_since(base.position.definition):
            return None
        return base.position.sources[0] if len(base.position.sources) == 1 else None

    def _is_on_the_way(self, head: TableState, then: TableState) -> bool:
        if self._base is None:
            return True
        state = self._state()
        if state is None or self._options.of_a_version or not is_same_table(state, head):
            return False
        return state.transaction < then.number

    def _shows(self, then: TableState) -> bool:
        state = self._state()
        return state is not None and behind(state, then) is None

    def _asked(self, at: FrozenVersion | None) -> Answer[Any]:
        version = None if at is None else str(at.number)
        return opened(self._choice, self._lake, self._projection.name, self._sql, version)

    def _schema(self, asked: Answer[Any]) -> pa.Schema:
        """Give the columns of the files, which can all be written."""
        schema = asked.schema
        self._check(schema)
        schema = self._out.file_schema(schema, self._base)
        self._check_change(schema)
        return schema

    def _check_sql(self, asked: Answer[Any]) -> None:
        if self._projection.incremental:
            asked.check_deterministic(f"the SQL of {self._projection.name}")

    def _check(self, schema: pa.Schema) -> None:
        """Make sure that the columns can be published.

        Raises:
            InvalidQueryError: Two have one name.
            UsageError: The order, the key or the partitions name one that is not there.
        """
        if twice := repeated(schema.names):
            raise InvalidQueryError(
                f"{self._projection.name} has two columns {twice[0]!r}: rename one"
            )
        check_columns(self._projection, schema)

    def _check_change(self, schema: pa.Schema) -> None:
        """Make sure that the columns of the files may be what they are.

        Raises:
            UsageError: They are others than were published, and that is not wanted.
        """
        base, projection = self._base, self._projection
        if projection.on_schema_change is OnSchemaChange.EVOLVE or base is None:
            return
        if projection.changed_since(base.position.definition) or self._options.full_refresh:
            return  # somebody wants it otherwise
        before, after = _columns(base.schema), _columns(schema)
        if before == after:
            return
        told = [f"{name} {kind} is new" for name, kind in after.items() if name not in before]
        told += [f"{name} {kind} is missing" for name, kind in before.items() if name not in after]
        told += [
            f"{name} was {before[name]} and is {kind}"
            for name, kind in after.items()
            if before.get(name, kind) != kind
        ]
        raise UsageError(
            f"{projection.name} would get other columns: {'; '.join(told) or 'another order'}; "
            "nothing was published. Set on_schema_change: evolve, or publish once with "
            "--full-refresh"
        )

    def _own_position(self) -> Position:
        projection = self._projection
        return Position(projection.name, projection.definition, self._lake.store.uri, ())

    def _sweep(self) -> None:
        """Delete what no reader needs; that it failed changes nothing of what was published."""
        try:
            self._out.sweep()
        except SingerlakeError as error:
            logger.warning("old files of %s stay for now: %s", self._projection.name, error)


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {one.name: str(one.type) for one in schema}
