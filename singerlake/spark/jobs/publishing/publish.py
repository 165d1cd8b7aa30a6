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
from singerlake.projections import registry
from singerlake.projections.graph import graph
from singerlake.projections.projection import Projection, Target
from singerlake.projections.publishing import (
    Outcome,
    PublishedRows,
    PublishOptions,
    Result,
    StagedRows,
)
from singerlake.spark.jobs.publishing.publish_rows import PublishRows
from singerlake.spark.jobs.publishing.stage import How, stage


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
    for projection in arranged.projections:
        broken = [name for name in arranged.makers(projection.name) if name in failed]
        if broken:
            reason = f"it reads what {broken[0]} makes"
            outcome = Outcome(projection.name, Result.SKIPPED, reason=reason)
        else:
            outcome = _outcome(spark, lake, projection, options)
        if outcome.result in (Result.SKIPPED, Result.FAILED):
            failed.add(projection.name)
        yield outcome


def _outcome(
    spark: SparkSession, lake: Lake, projection: Projection, options: PublishOptions
) -> Outcome:
    if options.lake_version is not None and projection.target is None:
        return Outcome(projection.name, Result.UP_TO_DATE)  # nothing of it is published anywhere
    staged = published = None
    try:
        # A version of a staging table is what it was: to publish it, nothing is to be refreshed.
        if projection.stage is not None and not (options.of_a_version and projection.target):
            staged = _staged(spark, lake, projection, options)
        if projection.target is not None:
            published = _published(spark, lake, projection, projection.target, options, staged)
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
    staged: StagedRows | None,
) -> PublishedRows | None:
    """Bring the rows to their destination; None where they were there."""
    uri, active = lake.store.uri, not options.dry_run
    with told_job(uri, projection.name, "publish", active=active) as telling:
        return PublishRows(spark, lake, projection, target, options, telling).run(staged)


def _staged(
    spark: SparkSession, lake: Lake, projection: Projection, options: PublishOptions
) -> StagedRows | None:
    """Refresh the staging table; None where it was up to date."""
    done = stage(
        spark,
        lake,
        projection,
        full_refresh=options.full_refresh,
        dry_run=options.dry_run,
        at=options.at,
    )
    if done.how is How.UP_TO_DATE:
        return None
    changed = done.changed
    return StagedRows(
        str(projection.stage),
        done.transaction,
        str(done.how),
        done.why,
        changed.inserted,
        changed.updated,
        changed.deleted,
    )
