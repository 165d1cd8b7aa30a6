"""Which stage of its work a job is at, in plain words, for whoever watches it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class _Named:
    """The stages that run now, or are about to.

    Attributes:
        group: The group of their Spark jobs.
        words: What each stage does, in the order in which they run.
    """

    group: str
    words: Sequence[str]


# One session a process, and a watcher in another thread. Threads that work side by side end in
# any order: the last of those that are still at work is the one that is told of.
_at_work: list[_Named] = []


@contextmanager
def stages(spark: SparkSession, *words: str) -> Iterator[None]:
    """Name the stages of the Spark actions within.

    Args:
        spark: The session.
        words: What each stage does, in the order in which they run; where there are more stages,
            the last stands for all that follow.
    """
    named = _Named(f"singerlake-{next(_numbers)}", words)
    _at_work.append(named)
    properties: tuple[str | None, str | None] | None = None
    # The words are for a progress bar only: a gateway that is gone must not take the place of the
    # work's own result or error, least of all behind a commit.
    with suppress(Exception):
        context = spark.sparkContext
        properties = context.getLocalProperty(_GROUP), context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_GROUP, named.group)
        context.setLocalProperty(_DESCRIPTION, words[0])
    try:
        yield
    finally:
        _at_work.remove(named)
        if properties is not None:
            with suppress(Exception):
                # Spark takes None for "as it was before"; its type hints do not.
                context.setLocalProperty(_GROUP, properties[0])  # type: ignore[arg-type]
                context.setLocalProperty(_DESCRIPTION, properties[1])  # type: ignore[arg-type]


def progress(spark: SparkSession) -> tuple[str, int, int]:
    """Say what is being done, and how many of how many tasks of that are done.

    The words are empty where nobody has named the stage; no tasks are known between stages.
    """
    tracker = spark.sparkContext.statusTracker()
    active = set(tracker.getActiveStageIds())
    named, words = next(iter(_at_work[-1:]), None), ""
    if named is not None:
        jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(named.group))
        listed = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
        # A job lists the stages of the jobs before it again, under new numbers. These never run.
        begun = [stage for stage in listed if stage in active or _tasks(spark, stage)[0]]
        active &= set(begun)
        words = named.words[min(max(len(begun), 1), len(named.words)) - 1]
    counts = [_tasks(spark, stage) for stage in active]
    return words, sum(done for done, _ in counts), sum(total for _, total in counts)


def _tasks(spark: SparkSession, stage: int) -> tuple[int, int]:
    """How many tasks of a stage are done, and how many there are."""
    info = spark.sparkContext.statusTracker().getStageInfo(stage)
    return (0, 0) if info is None else (info.numCompletedTasks, info.numTasks)
