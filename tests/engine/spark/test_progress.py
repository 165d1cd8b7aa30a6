"""What a watcher is told of a job: the stage that runs, in words, and the job's tasks."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from singerlake.engine.spark.jvm.progress import Tally, followed_by, stages


def slow(batches):
    """Takes longer in each partition than in the one before, so that tasks end one by one."""
    for batch in batches:
        time.sleep(0.2 + 0.2 * TaskContext.get().partitionId())
        yield batch


def test_tally_counts_stages_by_their_words_and_the_tasks_of_the_job(spark: SparkSession) -> None:
    tally = Tally(spark)
    assert tally() == ("", 0, 0)
    seen: list[tuple[str, int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            seen.append(tally())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with followed_by(1), stages(spark, "reading", "sorting", "writing", more=1):
            rows = spark.range(0, 4, 1, 4).mapInArrow(slow, "id long")
            rows = rows.repartition(3).mapInArrow(slow, "id long")
            rows.repartition(2).mapInArrow(slow, "id long").collect()
        with stages(spark, "adding up", "committing"):
            spark.range(0, 4, 1, 4).mapInArrow(slow, "id long").collect()
    finally:
        ended.set()
        watcher.join()
    words = [word for word in dict.fromkeys(word for word, _, _ in seen) if word]
    assert words == ["reading", "sorting", "writing", "adding up"]
    done = [done for _, done, _ in seen]
    assert done == sorted(done)
    assert all(done <= total for _, done, total in seen)
    known = [{total for word, _, total in seen if word == at and total} for at in words]
    # 4 tasks, and four stages like that to come; 3 more, and three stages to come; 2 more, and two
    assert known[0] == {20}
    assert 7 + 3 * 7 // 2 in known[1]
    assert 9 + 2 * 9 // 3 in known[2]
    assert 13 + 13 // 4 in known[3]
    assert any(0 < done < total for word, done, total in seen if word == "reading")
    assert tally()[:2] == ("", 13)
    assert Tally(spark)() == ("", 0, 0)  # a next command counts anew
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_who_ends_first_of_two_side_by_side_leaves_no_words_behind(spark: SparkSession) -> None:
    tally = Tally(spark)
    first, second = stages(spark, "reading"), stages(spark, "writing")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert tally()[0] == "writing"
    second.__exit__(None, None, None)
    assert tally()[0] == ""


@pytest.mark.parametrize("alive", [0, 2, 4])
def test_a_gateway_that_is_gone_hides_neither_result_nor_error(alive: int) -> None:
    class Context:
        calls = 0

        def _call(self, *_: object) -> None:
            self.calls += 1
            if self.calls > alive:
                raise Py4JNetworkError("Answer from Java side is empty")

        getLocalProperty = setLocalProperty = _call

    session: Any = SimpleNamespace(sparkContext=Context())
    with stages(session, "committing"):
        result = 1
    assert result == 1
    with pytest.raises(ValueError, match="its own"), stages(session, "committing"):
        raise ValueError("its own")
