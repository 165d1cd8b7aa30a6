"""The progress of a job: its stage in plain words, and its tasks on Spark."""

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
        more: How many stages the job has after these.
    """

    group: str
    words: Sequence[str]
    more: int


# One session a process, and a watcher in another thread. Threads that work side by side end in
# any order: the last of those that are still at work is the one that is told of.
_at_work: list[_Named] = []
_later: list[int] = []


@contextmanager
def stages(spark: SparkSession, *words: str, more: int = 0) -> Iterator[None]:
    """Name the stages of the Spark actions within.

    Args:
        words: What each stage does, in the order in which they run; where there are more stages,
            the last stands for all that follow.
        more: How many stages the same job has after these, as far as that is known: without them
            the share that is done would be too great.
    """
    named = _Named(f"singerlake-{next(_numbers)}", words, more)
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


@contextmanager
def followed_by(count: int) -> Iterator[None]:
    """Announce that the job has so many stages after those that are named within."""
    _later.append(count)
    try:
        yield
    finally:
        _later.remove(count)


class Tally:
    """Counts the tasks of Spark's jobs from now on: those that are done, and those that are due.

    Due are the tasks of all stages that have begun, and of each stage that is still to come as
    many as the others have on average.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._running: set[int] = set()
        self._stages: dict[int, tuple[int, int]] = {}
        self._to_come = 0

    def __call__(self) -> tuple[str, int, int]:
        """Count again.

        Returns:
            What is being done, empty if nobody has named it; the tasks done; and the tasks due.
        """
        self._count()
        words = self._named()
        done = sum(done for done, _ in self._stages.values())
        begun = sum(due for _, due in self._stages.values())
        to_come = self._to_come * begun // len(self._stages) if self._stages else 0
        return words, done, begun + to_come

    def _count(self) -> None:
        """Count the tasks of jobs that run, or ran when they were counted last."""
        self._running.update(self._tracker.getActiveJobsIds())
        for number in sorted(self._running):
            job = self._tracker.getJobInfo(number)
            if job is None or job.status != "RUNNING":
                self._running.discard(number)
            # It lists the stages of the jobs before it again, under new numbers: these never run.
            listed = () if job is None else job.stageIds
            self._stages.update(
                (stage, tasks) for stage in listed if any(tasks := self._tasks(stage))
            )

    def _named(self) -> str:
        """The stage that runs, in words; and count the stages that are still to come."""
        words, to_come = "", 0
        at_work = [*_at_work]
        for named in at_work:
            jobs = map(self._tracker.getJobInfo, self._tracker.getJobIdsForGroup(named.group))
            listed = {stage for job in jobs if job is not None for stage in job.stageIds}
            begun = sum(any(self._tasks(stage)) for stage in listed)
            words = named.words[min(max(begun, 1), len(named.words)) - 1]
            to_come += max(len(named.words) - begun, 0) + named.more
        if at_work:
            self._to_come = to_come + sum(_later)
        return words

    def _tasks(self, stage: int) -> tuple[int, int]:
        """Count the tasks of a stage that are done, and all of them; none before it begins."""
        info = self._tracker.getStageInfo(stage)
        if info is None or not (info.numCompletedTasks or info.numActiveTasks):
            return 0, 0
        return info.numCompletedTasks, info.numTasks
