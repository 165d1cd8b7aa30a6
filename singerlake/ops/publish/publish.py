"""Publish: projections are staged and published, one after the other.

Each destination says itself which states of the lake it shows, in the commit that made it show
them, and so does each staging table. So a run that died is simply run again: what it committed is
up to date, and the rest is not. If all are up to date, nothing is read but metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError, UsageError
from singerlake.lake import Lake
from singerlake.lineage import told_job
from singerlake.ops.publish.answers import instead
from singerlake.ops.publish.outcome import (
    Outcome,
    PublishedRows,
    PublishOptions,
    RefreshKind,
    Result,
    StagedRows,
)
from singerlake.ops.publish.publish_rows import PublishRows
from singerlake.publish import registry
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.graph import graph
from singerlake.publish.projection import Projection, Target
from singerlake.publish.status import status
from singerlake.sql.local.outside import OutsideError

if TYPE_CHECKING:
    from singerlake.ops.publish.stage import Staged


def publish(
    lake: Lake,
    projections: Sequence[Projection],
    options: PublishOptions | None = None,
    choice: EngineChoice | None = None,
) -> Iterator[Outcome]:
    """Stage and publish projections, in the order in which they read each other.

    One that fails stops none but those that read what it stages. Nothing is done before the first
    outcome is taken, and no more than was asked for.

    Args:
        projections: Which, and all that make what they read.
        choice: What may read rows.

    Raises:
        UsageError: The projections cannot be as a whole, as where they read each other in a circle;
            or one that is declared nowhere would replace the rows of another table.
        NotFoundError: One reads a table that is not there.
    """
    options, choice = options or PublishOptions(), choice or EngineChoice()
    settled = _without_work(lake, projections, options)
    yield from _published_all(lake, projections, options, choice) if settled is None else settled


def _published_all(
    lake: Lake, projections: Sequence[Projection], options: PublishOptions, choice: EngineChoice
) -> Iterator[Outcome]:
    arranged = graph(lake, projections)
    failed: set[str] = set()
    moved: dict[str, str] = {}
    for projection in arranged.projections:
        name, makers = projection.name, arranged.makers(projection.name)
        if broken := [one for one in makers if one in failed]:
            outcome = Outcome(name, Result.SKIPPED, reason=f"it reads the result of {broken[0]}")
        elif ahead := [moved[one] for one in makers if one in moved]:
            # What it will read nobody can read yet.
            reason = f"{ahead[0]} changes first; the number of rows here is known after that"
            outcome = Outcome(name, Result.TO_DO, reason=reason)
        else:
            outcome = _outcome(lake, projection, options, choice)
        if outcome.result in (Result.SKIPPED, Result.FAILED):
            failed.add(name)
        if outcome.result is Result.TO_DO and _moves(outcome):
            moved[name] = str(projection.stage)
        yield outcome


def _moves(outcome: Outcome) -> bool:
    """Tell whether the rows or columns of a staging table would be others after the run."""
    staged = outcome.staged
    if staged is None:
        return bool(outcome.reason)  # it reads one of which that is so
    return staged.how == RefreshKind.CREATED or bool(staged.changed or staged.columns)


def _outcome(
    lake: Lake, projection: Projection, options: PublishOptions, choice: EngineChoice
) -> Outcome:
    if options.lake_version is not None and projection.target is None:
        return Outcome(projection.name, Result.UP_TO_DATE)  # nothing of it is published anywhere
    refreshed = staged = published = None
    try:
        # A version of a staging table is what it was: to publish it, nothing is to be refreshed.
        if projection.stage is not None and not (options.of_a_version and projection.target):
            refreshed = _refreshed(lake, projection, options, choice)
            staged = None if refreshed is None else _told(refreshed)
        if projection.target is not None:
            published = _published(lake, projection, projection.target, options, choice, refreshed)
            if not options.dry_run:
                registry.note(lake, projection)
    except SingerlakeError as error:
        return Outcome(projection.name, Result.FAILED, staged, error=error)
    if staged is None and published is None:
        return Outcome(projection.name, Result.UP_TO_DATE)
    result = Result.TO_DO if options.dry_run else Result.DONE
    return Outcome(projection.name, result, staged, published)


def _published(
    lake: Lake,
    projection: Projection,
    target: Target,
    options: PublishOptions,
    choice: EngineChoice,
    staged: Staged | None,
) -> PublishedRows | None:
    """Bring the rows to their destination; None where they were there."""
    uri, active = lake.store.uri, not options.dry_run
    with told_job(uri, projection.name, "publish", active=active) as telling:
        asked = (lake, projection, target, options, telling)
        try:
            return PublishRows(*asked, choice).run(staged)
        except OutsideError as error:  # some rows turned out to be more than DuckDB may compute
            return PublishRows(*asked, instead(choice, projection.name, error)).run(staged)


def _refreshed(
    lake: Lake, projection: Projection, options: PublishOptions, choice: EngineChoice
) -> Staged | None:
    """Refresh the staging table; None where it was up to date."""
    from singerlake.ops.publish.stage import stage  # late: few projections have one

    done = stage(
        lake,
        projection,
        choice,
        full_refresh=options.full_refresh,
        dry_run=options.dry_run,
        at=options.at,
    )
    return None if done.how is RefreshKind.UP_TO_DATE else done


def _told(done: Staged) -> StagedRows:
    changed = done.changed
    return StagedRows(
        str(done.projection.stage),
        done.transaction,
        str(done.how),
        done.why,
        changed.inserted,
        changed.updated,
        changed.deleted,
        tuple(map(str, done.columns)),
    )


def _without_work(
    lake: Lake, projections: Sequence[Projection], options: PublishOptions
) -> list[Outcome] | None:
    """Say what becomes of projections if no row has to be read for it; None otherwise."""
    if options.full_refresh:
        return None
    for projection in projections:
        _refuse_other_table(lake, projection)
    if options.of_a_version:
        return None
    found = status(lake, projections)
    if any(one.reasons for one in found):
        return None
    outcomes = []
    for one in found:
        if one.error is not None:
            outcomes.append(Outcome(one.projection.name, Result.FAILED, error=one.error))
            continue
        if not options.dry_run:
            registry.note(lake, one.projection)
        outcomes.append(Outcome(one.projection.name, Result.UP_TO_DATE))
    return outcomes


def _refuse_other_table(lake: Lake, projection: Projection) -> None:
    """Make sure that a place is not taken by mistake, where its name is all that is said of it.

    Raises:
        UsageError: It was published there from other tables.
    """
    target = projection.target
    if target is None or projection.name != target.uri:
        return  # declared, and what is declared may change
    base = None
    with suppress(SingerlakeError):  # said by those that go on with it
        base = open_destination(projection).published()
    before = {state.table for state in base.position.sources} if base is not None else set()
    now = set(registry.publication_of(lake, projection).tables)
    if before and now and before.isdisjoint(now):
        raise UsageError(
            f"{target.uri} holds rows of {', '.join(sorted(before))}, not of "
            f"{', '.join(sorted(now))}: publish into another folder, or use --full-refresh to "
            "replace them"
        )


def published(
    within: Lake,
    projections: Sequence[Projection],
    options: PublishOptions,
    choice: EngineChoice,
) -> list[Outcome]:
    """Publish projections, all of them, and return what became of each.

    Raises:
        SingerlakeError: The first that failed, once all were tried.
    """
    outcomes = list(publish(within, projections, options, choice))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes
