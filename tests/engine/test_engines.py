"""What an operation asks of an engine, asked of both: they must answer alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from singerlake.engine.base import Engine, task_row
from singerlake.engine.local import LocalEngine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.errors import DamagedError, SingerlakeError
from singerlake.ops.verify import checking
from singerlake.ops.verify.problems import MAX_PROBLEMS, Problem
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_tasks import SENT, given, sent

TASKS = [b"part %d" % number for number in range(5)]
NUMBERS = "part int, number long"


class Numbers:
    """Gives as many numbers as a task says, each with the part that it belongs to."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def __call__(self, batches: Batches) -> Batches:
        for number, task in given(batches):
            count = int((task or b"0").split()[-1]) + 1
            values = [10 * number + n for n in range(count)]
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([value % self.parts for value in values], pa.int32()),
                    "number": pa.array(values, pa.int64()),
                }
            )


def summed(batches: Batches) -> Batches:
    """One row for each part that has rows: which parts they are of, how many, and their sum."""
    parts: set[int] = set()
    numbers: list[int] = []
    for batch in batches:
        parts |= {*batch.column("part").to_pylist()}
        numbers += batch.column("number").to_pylist()
    if numbers:
        assert len(parts) == 1, "rows of one number are in one part, and alone there"
        row = {"part": pa.array([*parts], pa.int32()), "number": [sum(numbers)]}
        yield pa.RecordBatch.from_pydict(row)


def told(batches: Batches) -> Batches:
    """Each number with what its part was told, which comes first."""
    known: dict[int, bytes] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("part", "number"))
        some: list[tuple[int, int]] = []
        for part, number, task in zip(*columns, sent(batch), strict=True):
            if task is not None:
                assert number is None, "a part's task is a row of its own"
                known[part] = task
            else:
                some.append((part, number))
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([number for _, number in some], pa.int64()),
                "task": pa.array([known[part] for part, _ in some], pa.binary()),
            }
        )


def broken(batches: Batches) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise DamagedError("row 3 of block 7 is damaged")
    yield from ()


def everything(engine: Engine[Any], parts: int = 3) -> Any:
    return engine.map(engine.source(TASKS), Numbers(parts), NUMBERS)


def all_numbers() -> list[int]:
    return [10 * number + n for number in range(5) for n in range(number + 1)]


def test_each_task_is_a_part_with_its_number(engine: Engine[Any]) -> None:
    rows = engine.collect(everything(engine))
    assert sorted(row["number"] for row in rows) == all_numbers()


def test_no_tasks_give_no_rows(engine: Engine[Any]) -> None:
    assert engine.collect(engine.map(engine.source([]), Numbers(1), NUMBERS)) == []


def test_exchange_brings_rows_of_a_number_together(engine: Engine[Any]) -> None:
    rows = engine.collect(
        engine.map(engine.exchange(everything(engine), 3, "part"), summed, NUMBERS)
    )
    expected: Counter[int] = Counter()
    for number in all_numbers():
        expected[number % 3] += number
    assert {row["part"]: row["number"] for row in rows} == expected


def test_exchange_begins_again_at_the_first_part(engine: Engine[Any]) -> None:
    rows = engine.exchange(everything(engine), 1, "part")
    found = engine.collect(engine.map(rows, counted, "number long"))
    assert found == [{"number": len(all_numbers())}]


def test_having_leaves_rows_without_a_value_out(engine: Engine[Any]) -> None:
    rows = engine.having(engine.map(engine.source(TASKS), even, NUMBERS), "number")
    found = engine.collect(engine.map(rows, counted, "number long"))
    assert sum(row["number"] for row in found) == 3


def even(batches: Batches) -> Batches:
    """The numbers of tasks, odd ones as null."""
    for number, _ in given(batches):
        value = None if number % 2 else number
        row = {"part": pa.array([0], pa.int32()), "number": pa.array([value], pa.int64())}
        yield pa.RecordBatch.from_pydict(row)


@dataclass
class Noting:
    """Gives the numbers of tasks, and leaves a line of each in a file."""

    path: str

    def __call__(self, batches: Batches) -> Batches:
        for batch in even(batches):
            with Path(self.path).open("a") as file:
                file.write("read\n")
            yield batch


def test_what_is_kept_is_computed_once(engine: Engine[Any], tmp_path: Path) -> None:
    path = tmp_path / "read"
    rows = engine.map(engine.source(TASKS), Noting(str(path)), NUMBERS)
    with engine.keep(rows) as kept:
        found = [engine.collect(engine.having(kept, name)) for name in ("part", "number", "number")]
    assert [len(some) for some in found] == [5, 3, 3]
    assert len(path.read_text().splitlines()) == 5


def test_union_keeps_all_rows(engine: Engine[Any]) -> None:
    both = engine.union(everything(engine, 1), everything(engine, 1))
    rows = engine.collect(engine.map(engine.exchange(both, 1, "part"), counted, "number long"))
    assert rows == [{"number": 2 * len(all_numbers())}]


def counted(batches: Batches) -> Batches:
    yield pa.RecordBatch.from_pydict({"number": [sum(len(batch) for batch in batches)]})


def test_parts_are_told_their_tasks(engine: Engine[Any]) -> None:
    shared = engine.exchange(everything(engine), 3, "part", TASKS[:3])
    rows = engine.collect(engine.map(shared, told, "number long, task binary"))
    assert sorted((row["number"], row["task"]) for row in rows) == [
        (number, TASKS[number % 3]) for number in all_numbers()
    ]


def test_error_of_a_step_keeps_its_class(engine: Engine[Any]) -> None:
    with pytest.raises(DamagedError, match="row 3 of block 7 is damaged"):
        engine.collect(engine.map(engine.source(TASKS), broken, NUMBERS))


def test_java_that_ended_between_two_stages_is_told() -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise ConnectionRefusedError(111, "Connection refused")

    engine = object.__new__(SparkEngine)
    engine.spark = SimpleNamespace(range=refused)  # type: ignore[assignment]
    with pytest.raises(SingerlakeError, match="Java ended, most likely for lack of memory"):
        engine.source([b""])


def test_nothing_is_computed_before_it_is_collected() -> None:
    engine = LocalEngine()
    engine.map(
        engine.exchange(engine.map(engine.source(TASKS), broken, NUMBERS), 2, "part"),
        summed,
        NUMBERS,
    )


def test_problems_are_numbered_across_tasks(engine: Engine[Any]) -> None:
    def odd(thing: int) -> list[Problem]:
        return [Problem("block", str(thing), "even", "odd")] if thing % 2 else []

    found, more = checking.problems(engine, [[1, 2], [3], [4, 5, 6, 7]], odd)
    assert ([problem.where for problem in found], more) == (["1", "3", "5", "7"], 0)
    many = [[*range(start, start + 2 * MAX_PROBLEMS)] for start in (0, 2 * MAX_PROBLEMS)]
    found, more = checking.problems(engine, many, odd)
    assert [problem.where for problem in found] == [str(2 * n + 1) for n in range(MAX_PROBLEMS)]
    assert more == MAX_PROBLEMS
    assert checking.problems(engine, [], odd) == ([], 0)


def test_task_row_has_all_columns() -> None:
    schema = pa.schema({"number": pa.int64(), "part": pa.int32(), "text": pa.string()})
    row = task_row(schema, "part", 4, b"x")
    assert row.schema.names == ["number", "part", "text", SENT]
    assert row.to_pylist() == [{"number": None, "part": 4, "text": None, SENT: b"x"}]
