"""The publish job: projections are staged and published, one after the other.

Each destination says itself which states of the lake it shows, in the commit that made it show
them, and so does each staging table. So a run that died is simply run again: what it committed is
up to date, and the rest is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.lineage import told_job
from singerlake.ops.publish.publish_rows import PublishRows
from singerlake.ops.publish.stage import How, Staged, stage
from singerlake.publish import registry
from singerlake.publish.graph import graph
from singerlake.publish.projection import Projection, Target
from singerlake.publish.publishing import (
    Outcome,
    PublishedRows,
    PublishOptions,
    Result,
    StagedRows,
)


def publish(
    spark: SparkSession,
    lake: Lake,
    projections: Sequence[Projection],
    options: PublishOptions | None = None,
) -> Iterator[Outcome]:
    """Stage and publish projections, in the order in which they read each other.

    One that fails stops none but those that read what it stages. Nothing is done before the first
    outcome is taken, and no more than was asked for.

    Args:
        spark: The session.
        lake: The lake.
        projections: Which.
        options: How.

    Raises:
        UsageError: The projections cannot be as a whole, as where they read each other in a circle.
        NotFoundError: One reads a table that is not there.
    """
    options = options or PublishOptions()
    arranged = graph(lake, projections)
    failed: set[str] = set()
    moved: dict[str, str] = {}
    for projection in arranged.projections:
        name, makers = projection.name, arranged.makers(projection.name)
        if broken := [one for one in makers if one in failed]:
            outcome = Outcome(name, Result.SKIPPED, reason=f"it reads what {broken[0]} makes")
        elif ahead := [moved[one] for one in makers if one in moved]:
            # What it will read nobody can read yet.
            reason = f"{ahead[0]} changes first; what that comes to here is known then"
            outcome = Outcome(name, Result.TO_DO, reason=reason)
        else:
            outcome = _outcome(spark, lake, projection, options)
        if outcome.result in (Result.SKIPPED, Result.FAILED):
            failed.add(name)
        if outcome.result is Result.TO_DO and _moves(outcome):
            moved[name] = str(projection.stage)
        yield outcome


def _moves(outcome: Outcome) -> bool:
    """Whether the rows or columns of a staging table would be others after the run."""
    staged = outcome.staged
    if staged is None:
        return bool(outcome.reason)  # it reads one of which that is so
    return staged.how == How.CREATED or bool(staged.changed or staged.columns)


def _outcome(
    spark: SparkSession, lake: Lake, projection: Projection, options: PublishOptions
) -> Outcome:
    if options.lake_version is not None and projection.target is None:
        return Outcome(projection.name, Result.UP_TO_DATE)  # nothing of it is published anywhere
    refreshed = staged = published = None
    try:
        # A version of a staging table is what it was: to publish it, nothing is to be refreshed.
        if projection.stage is not None and not (options.of_a_version and projection.target):
            refreshed = _refreshed(spark, lake, projection, options)
            staged = None if refreshed is None else _told(refreshed)
        if projection.target is not None:
            published = _published(spark, lake, projection, projection.target, options, refreshed)
            if not options.dry_run:
                registry.note(lake, projection)
    except SingerlakeError as error:
        return Outcome(projection.name, Result.FAILED, staged, error=error)
    if staged is None and published is None:
        return Outcome(projection.name, Result.UP_TO_DATE)
    result = Result.TO_DO if options.dry_run else Result.DONE
    return Outcome(projection.name, result, staged, published)


def _published(
    spark: SparkSession,
    lake: Lake,
    projection: Projection,
    target: Target,
    options: PublishOptions,
    staged: Staged | None,
) -> PublishedRows | None:
    """Bring the rows to their destination; None where they were there."""
    uri, active = lake.store.uri, not options.dry_run
    with told_job(uri, projection.name, "publish", active=active) as telling:
        return PublishRows(spark, lake, projection, target, options, telling).run(staged)


def _refreshed(
    spark: SparkSession, lake: Lake, projection: Projection, options: PublishOptions
) -> Staged | None:
    """Refresh the staging table; None where it was up to date."""
    done = stage(
        spark,
        lake,
        projection,
        full_refresh=options.full_refresh,
        dry_run=options.dry_run,
        at=options.at,
    )
    return None if done.how is How.UP_TO_DATE else done


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
