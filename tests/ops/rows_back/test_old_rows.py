"""Rows that come back are checked against the key and the types of now, on both engines."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.errors import ViolationsError
from singerlake.lake import Lake, Table
from singerlake.ops.alter.alter import alter
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.undo import UndoOptions, undo
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions
from singerlake.rows.blocks import block_tasks
from tests.build import commit_rows
from tests.ops.rows_back.histories import NAME

TEXT: dict[str, Any] = {"type": ["null", "string"]}
INTEGER: dict[str, Any] = {"type": ["null", "integer"]}
COLUMNS = {"id": {"type": "integer"}, "code": TEXT, "n": TEXT}
LAST = 2
"""The last transaction of the rows, before anything is said of them."""


@pytest.fixture
def table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Rows in several tasks; the second transaction replaces those that do not fit."""
    monkeypatch.setattr(block_tasks, "TASK_BYTES", 40)
    monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    first = [
        {"id": 1, "code": "a", "n": "one"},
        {"id": 2, "code": "a", "n": "2"},
        {"id": 3, "n": "three"},
        {"id": 4, "code": "d", "n": "4"},
        {"id": 5, "n": None},
    ]
    commit_rows(lake, NAME, COLUMNS, ["id"], first, block_rows=2)
    then = [{"id": n, "code": c, "n": f"{n}"} for n, c in ((1, "b"), (3, "c"), (5, "e"))]
    commit_rows(lake, NAME, COLUMNS, ["id"], [*then, {"id": 6, "code": "f"}], block_rows=2)
    return lake.find(NAME)[0]


def retype(table: Table, engine: EngineChoice) -> None:
    alter(table, partial(says.with_type, name="n", schema=INTEGER), AlterOptions(), engine)


def test_revert_refuses_old_values_that_do_not_fit_the_type_of_now(
    table: Table, engine: EngineChoice
) -> None:
    retype(table, engine)
    for dry_run in (True, False):
        with pytest.raises(ViolationsError, match="--allow-type-mismatches") as told:
            revert(table, RevertOptions(1, dry_run), engine)
        first, column, *values, _ = told.value.lines
        assert first.startswith("rows of tap.s at transaction 1 have values that do not fit")
        assert column == "  column 'n' (int64) has 2 values that do not fit:"
        ends = ["cannot become int64 (id 1)", "cannot become int64 (id 3)"]
        assert [value[-len(end) :] for value, end in zip(values, ends, strict=True)] == ends
    assert table.snapshot().number == LAST + 1
    done = revert(table, RevertOptions(1, allow_type_mismatches=True), engine)
    assert (done.put_back, done.deleted, done.misfits) == (3, 1, ["n"])
    *_, entry = table.entries()
    assert entry.metadata["misfits"] == ["n"]
    forward = revert(table, RevertOptions(LAST + 1), engine)
    assert (forward.put_back, forward.misfits) == (4, []), "the types were these: nothing is asked"


def test_revert_refuses_old_rows_that_cannot_have_the_key_of_now(
    table: Table, engine: EngineChoice
) -> None:
    alter(table, partial(says.with_key, names=["code"]), AlterOptions(), engine)
    with pytest.raises(ViolationsError, match="cannot have; nothing was changed") as told:
        revert(table, RevertOptions(1), engine)
    assert list(told.value.lines) == [
        "tap.s has the key code, which its rows at transaction 1 cannot have; nothing was changed:",
        "  2 rows lack a value that fits code",
        "  2 rows have the same code as another:",
        "    code a: 2 rows",
        "first give the table a key that they can have: singerlake alter tap.s set-key",
    ]
    assert revert(table, RevertOptions(LAST), engine).whole
    assert table.snapshot().number == LAST + 2


def test_undo_refuses_old_values_that_do_not_fit_the_type_of_now(
    table: Table, engine: EngineChoice
) -> None:
    retype(table, engine)
    with pytest.raises(ViolationsError, match="--allow-type-mismatches") as told:
        undo(table, UndoOptions([LAST]), engine)
    first, column, *values, _ = told.value.lines
    assert first.startswith("rows of tap.s that would come back have values that do not fit")
    assert column == "  column 'n' (int64) has 2 values that do not fit:"
    ends = ["cannot become int64 (id 1)", "cannot become int64 (id 3)"]
    assert [value[-len(end) :] for value, end in zip(values, ends, strict=True)] == ends
    done = undo(table, UndoOptions([LAST], allow_type_mismatches=True), engine)
    assert (done.put_back, done.deleted, done.misfits) == (3, 1, ["n"])
