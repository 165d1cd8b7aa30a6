"""What a watcher is told of a job: the stage that runs, in words, and its tasks."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from singerlake.spark.jvm.progress import progress, stages

pytestmark = pytest.mark.spark


def slow(batches):
    """Takes longer in each partition than in the one before, so that tasks end one by one."""
    for batch in batches:
        time.sleep(0.2 + 0.2 * TaskContext.get().partitionId())
        yield batch


def test_stages_by_their_words_and_tasks(spark: SparkSession) -> None:
    assert progress(spark)[0] == ""  # stages of others may be left in a shared session
    seen: list[tuple[str, int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            seen.append(progress(spark))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with stages(spark, "reading", "sorting", "writing"):
            rows = spark.range(0, 4, 1, 4).mapInArrow(slow, "id long")
            rows = rows.repartition(3).mapInArrow(slow, "id long")
            rows.repartition(2).mapInArrow(slow, "id long").collect()
        with stages(spark, "committing"):
            time.sleep(0.2)
    finally:
        ended.set()
        watcher.join()
    words = list(dict.fromkeys(word for word, _, _ in seen))
    assert [word for word in words if word] == ["reading", "sorting", "writing", "committing"]
    assert {total for word, _, total in seen if word == "reading"} >= {4}
    assert 3 in {total for word, _, total in seen if word == "sorting"}
    assert 2 in {total for word, _, total in seen if word == "writing"}
    assert {total for word, _, total in seen if word == "committing"} == {0}
    assert all(0 <= done <= total for _, done, total in seen)
    assert any(0 < done < total for word, done, total in seen if word == "reading")
    assert progress(spark)[0] == ""  # stages of others may be left in a shared session
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_who_ends_first_of_two_side_by_side_leaves_no_words_behind(spark: SparkSession) -> None:
    first, second = stages(spark, "reading"), stages(spark, "writing")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert progress(spark)[0] == "writing"
    second.__exit__(None, None, None)
    assert progress(spark)[0] == ""


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
