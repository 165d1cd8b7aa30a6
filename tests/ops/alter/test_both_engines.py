"""Tables are altered in this process and on Spark: the same answers, the same entries."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.lake import Lake, Table
from singerlake.ops.alter.alter import alter
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.change.table_change import TableChange
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange
from tests.build import commit_rows
from tests.needs import MORE
from tests.ops.rows_back.histories import NAME
from tests.ops.rows_back.written import written
from tests.ops.test_both_engines import CORPUS, tasks

__all__ = ["tasks"]
NULLABLE = ["null", "integer"]
PRICE: dict[str, Any] = {"type": ["null", "number"], "format": "singer.decimal", "scale": 2}


def key(*names: str) -> OverlayChange:
    return partial(says.with_key, names=names)


def type_(name: str, schema: dict[str, Any] | None) -> OverlayChange:
    return partial(says.with_type, name=name, schema=schema)


def digits(precision: int) -> dict[str, Any]:
    most = 10 ** (precision - 2)
    bounds = {"exclusiveMaximum": most, "exclusiveMinimum": -most}
    return {**PRICE, "precision": precision, **bounds}


def answers(table: Table, choice: EngineChoice, said: Sequence[OverlayChange]) -> list[Any]:
    """What alterations say and write, one on top of the other, first without and then with."""
    found: list[Any] = []
    for change in said:
        for options in (AlterOptions(dry_run=True), AlterOptions(comment="x")):
            try:
                done = alter(table, change, options, choice)
            except SingerlakeError as error:
                found.append((type(error), str(error)))
                continue
            found.append(asdict(done))
            if done.transaction is not None:
                found.append(written(table, done.transaction))
    return [*found, freeze(table, FreezeOptions(again=True), choice).version.fingerprint]


@pytest.mark.usefixtures("each_operation", "tasks")
@pytest.mark.parametrize(
    ("tasks", "name", "said"),
    [
        # A key of few values; one under which deleted rows come back; and back.
        pytest.param(
            "one task", "random", [key("n"), key("id", "n"), key("part"), key("id")], marks=MORE
        ),
        pytest.param(
            "many tasks",
            "random",
            [key("n"), key("id", "n"), type_("part", {"type": NULLABLE})],
            marks=MORE,
        ),
        pytest.param(
            "layers",
            "compound keys",
            [key("id"), key("id", "part", "n"), key("part", "id")],
            marks=MORE,
        ),
        pytest.param(
            "one task",
            "all kinds of keys",
            [key("v"), key("amount", "flag"), type_("v", None)],
            marks=MORE,
        ),
        ("many tasks", "keyless", [key("id"), key("id", "n", "part"), type_("n", None)]),
        ("one task", "other schemas", [key("name"), type_("name", {"type": NULLABLE})]),
    ],
    indirect=["tasks"],
)
def test_alterations_answer_alike(
    spark: SparkSession, lake: Lake, name: str, said: Sequence[OverlayChange]
) -> None:
    CORPUS[name](lake)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    here = answers(lake.find(NAME)[0], EngineChoice(LOCAL), said)
    assert here == answers(other.find(NAME)[0], EngineChoice.of(spark=spark), said)


ROWS = [
    '{"id": 1, "code": "7", "price": 12345.67}',
    '{"id": 2, "code": "x", "price": -12345.67}',
    '{"id": 3, "code": "8", "price": 1}',
    '{"id": 1, "code": "9", "price": 2}',
]
COLUMNS = {"id": {"type": "integer"}, "code": {"type": ["null", "string"]}, "price": PRICE}


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, NAME, COLUMNS, ["id"], [*ROWS])
    return lake.find(NAME)[0]


def test_a_type_is_refused_if_values_do_not_fit(table: Table, engine: EngineChoice) -> None:
    whole = type_("code", {"type": NULLABLE})
    with pytest.raises(ViolationsError, match="new type, and nothing was altered") as told:
        alter(table, whole, None, engine)
    assert told.value.lines[1] == "  column 'code' (int64) has 1 value that does not fit:"
    with pytest.raises(ViolationsError, match="fit their new type; nothing was changed") as told:
        alter(table, whole, AlterOptions(new_version=True), engine)
    assert "id 2" in told.value.lines[2]
    assert table.snapshot().number == 1
    assert alter(table, whole, AlterOptions(allow_type_mismatches=True), engine).transaction == 2


def test_digits_that_a_type_declares_are_asked_of_all_rows(
    table: Table, engine: EngineChoice
) -> None:
    price = type_("price", digits(6))
    for options, words in (
        (AlterOptions(), "violate the constraint, and nothing was altered"),
        (AlterOptions(new_version=True), "would violate a constraint; nothing was"),
    ):
        with pytest.raises(ViolationsError, match=words) as told:
            alter(table, price, options, engine)
        assert list(told.value.lines)[1:-1] == [
            "  1 row breaks price decimal(6,2) (abs(`price`) < 10000):",
            "    id 2, price -12345.67",
        ]
    done = alter(table, type_("price", digits(7)), AlterOptions(new_version=True), engine)
    assert done.transaction == 2
    assert done.version is not None
    assert done.version.rows == 3
    assert alter(table, price, AlterOptions(allow_type_mismatches=True), engine).transaction == 3


def test_a_key_and_a_version_are_one_transaction(
    lake: Lake, table: Table, engine: EngineChoice
) -> None:
    with pytest.raises(ViolationsError, match="cannot have the key code") as told:
        commit_rows(lake, NAME, COLUMNS, ["id"], ['{"id": 4}', '{"id": 5, "code": "8"}'])
        alter(table, key("code"), AlterOptions(new_version=True), engine)
    assert list(told.value.lines)[1:-1] == [
        "  1 row lacks a value that fits code",
        "  2 rows have the same code as another:",
        "    code 8: 2 rows",
    ]
    commit_rows(lake, NAME, COLUMNS, ["id"], ['{"id": 4, "code": "4"}', '{"id": 5, "code": "5"}'])
    would = alter(table, key("code"), AlterOptions(new_version=True, dry_run=True), engine)
    assert (would.transaction, would.version) == (None, None)
    # The first row of id 1 had another code, and comes back under this key, but for the rewriting.
    done = alter(table, key("code"), AlterOptions(new_version=True), engine)
    assert (done.transaction, done.rows) == (4, 5)
    assert done.version is not None
    again = freeze(table, FreezeOptions(again=True), engine).version
    assert (again.rows, again.fingerprint) == (5, done.version.fingerprint)


def test_rows_and_a_key_are_one_change(lake: Lake, table: Table, engine: EngineChoice) -> None:
    with TableChange(table, ChangeOptions(new_version=True), engine) as change:
        change.set_key("code")
        change.upsert([{"code": "8", "id": 33}, {"code": "n", "id": 4}])
        change.delete(["x"])
    done = change.result
    assert done is not None
    assert (done.inserted, done.updated, done.deleted, done.whole) == (1, 1, 1, True)
    with TableChange(table, ChangeOptions(), engine) as change:
        change.set_key("price")  # which the rows cannot have, and all of which go
        change.replace([{"id": 1, "price": "1.5"}, {"id": 2, "price": "2.5"}])
    done = change.result
    assert done is not None
    assert (done.inserted, done.whole) == (2, True)
    assert freeze(table, FreezeOptions(again=True), engine).version.rows == 2
