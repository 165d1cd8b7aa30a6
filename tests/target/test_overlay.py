"""What a person said of a table binds what comes in; a SCHEMA that contradicts it ends a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, InputError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.log import catalogue
from singerlake.ops.drop import drop_table
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange, alter
from target_singerlake.run import Run
from tests.target.harness import TAP, lines_of, record, run, schema, state

STRING: dict[str, Any] = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "code": STRING, "n": {"type": "integer"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run(tmp_path / "lake", [schema("s", PROPERTIES), record("s", {"id": 1, "code": "a", "n": 1})])
    return tmp_path / "lake"


def table(root: Path) -> Table:
    return Lake.open(str(root)).find(f"{TAP}.s")[0]


def said(root: Path, *changes: OverlayChange) -> None:
    for change in changes:
        alter(table(root).store, table(root).snapshot(), change)


def constraint(kind: Any, *columns: str, **more: Any) -> OverlayChange:
    one = Constraint(kind, [*columns], **more)
    return partial(says.with_constraint, name=kind, constraint=one)


def test_records_are_held_against_what_was_said(root: Path) -> None:
    said(
        root,
        partial(says.with_name, name="code", new="name"),
        partial(says.with_key, names=["name"]),
        constraint("range", "n", minimum=0, maximum=9),
    )
    good = record("s", {"id": 1, "code": "b", "n": 5})
    run(root, [schema("s", PROPERTIES), good])
    assert lines_of(root, "s")[-1] == good, "the lines stay the tap's own"
    bad = [
        ({"id": 1, "n": 5}, "no value for its key 'code'"),
        ({"id": 1, "code": None, "n": 5}, "null for its key 'code'"),
        ({"id": 1, "code": "c", "n": 10}, "10 is greater than the maximum of 9"),
    ]
    for wrong, words in bad:
        with pytest.raises(InputError, match=words):
            run(root, [schema("s", PROPERTIES), record("s", wrong), state(1)])
        assert run.states == []  # type: ignore[attr-defined]
    assert table(root).snapshot().schema.key_properties == ["name"]
    assert len(table(root).snapshot().schemas) == 1, "and so does its schema"


@pytest.mark.parametrize(
    ("changes", "properties", "words"),
    [
        ([partial(says.with_key, names=["code"])], {"id": {"type": "integer"}},
         "lacks the column 'code', which alter made part of the key"),
        ([partial(says.with_column, name="x", schema=STRING)],
         {**PROPERTIES, "x": {"type": "integer"}}, "declares 'x' as int64, and alter added"),
        ([partial(says.with_name, name="code", new="name")], {**PROPERTIES, "name": STRING},
         "declares 'name', and that is what alter calls 'code'"),
        ([partial(says.with_type, name="code", schema={"type": ["null", "integer"]})],
         {**PROPERTIES, "code": {"type": "array", "items": STRING}}, "and alter made int64 of it"),
        ([constraint("range", "n", maximum=3)], {**PROPERTIES, "n": STRING},
         "constraint 'range' does not fit what it declares: column 'n' is string"),
        ([constraint("range", "n", maximum=3)],
         {**PROPERTIES, "n": {"type": "string", "format": "singer.decimal"}}, "as strings"),
        ([partial(says.with_name, name="code", new="name"), constraint("enum", "name",
         values=["x"])], {**PROPERTIES, "code": {"type": "integer"}}, "'name' is not a valid"),
    ],
)  # fmt: skip
def test_a_schema_that_contradicts_it_ends_the_run(
    root: Path, changes: list[OverlayChange], properties: dict[str, Any], words: str
) -> None:
    said(root, *changes)
    number = table(root).snapshot().number
    with pytest.raises(InputError, match=words) as told:
        run(root, [schema("s", properties), record("s", {"id": 2}), state(1)])
    assert f"an override of {TAP}.s by singerlake alter" in str(told.value)
    assert table(root).snapshot().number == number


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(says.without_column, name="code"), "its key has 'code', and alter dropped that"),
        (partial(says.with_type, name="code", schema={"type": ["null", "integer"]}),
         "its key has 'code', and alter made int64 of that column"),
    ],
)  # fmt: skip
def test_a_tap_cannot_make_a_key_of_a_column_that_people_took_from_it(
    root: Path, change: OverlayChange, words: str
) -> None:
    said(root, change)
    lines = [schema("s", PROPERTIES, ["code"]), record("s", {"id": 2, "code": "7", "n": 1})]
    with pytest.raises(InputError, match=words) as told:
        run(root, lines)
    assert "set-key" in str(told.value)
    assert table(root).snapshot().key == ()
    said(root, partial(says.with_key, names=["id"]))
    run(root, lines)
    assert table(root).snapshot().schema.key_properties == ["id"]


def test_an_added_column_that_the_tap_declares_is_the_taps(root: Path) -> None:
    said(root, partial(says.with_column, name="x", schema=STRING, default="d"))
    more = {**PROPERTIES, "x": {"type": "string"}}
    run(root, [schema("s", more), record("s", {"id": 2, "n": 1, "x": "y"})])
    assert dict(table(root).snapshot().columns).keys() == {"id", "code", "n", "x"}


def test_rows_that_were_checked_by_other_words_are_not_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Run.commit
    rule = constraint("range", "n", maximum=3)

    def overtaken(self: Run) -> None:
        said(root, rule)
        commit(self)

    lines = [schema("s", PROPERTIES), record("s", {"id": 2, "code": "b", "n": 5}), state(1)]
    with monkeypatch.context() as patch:
        patch.setattr(Run, "commit", overtaken)
        with pytest.raises(ConflictError, match="was altered while rows for it arrived"):
            run(root, lines)
    assert run.states == []  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="maximum of 3"):
        run(root, lines)


def test_a_catalogue_that_lags_behind_costs_a_run_and_no_more(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "update", lambda *_: None)  # alter ended before it
        said(root, constraint("range", "n", maximum=3))
    lines = [schema("s", PROPERTIES), record("s", {"id": 2, "code": "b", "n": 5})]
    with pytest.raises(ConflictError, match="was altered"):
        run(root, lines)
    with pytest.raises(InputError, match="maximum of 3"):
        run(root, lines)


def dropped(root: Path) -> None:
    drop_table(table(root).store, table(root).snapshot(), AlterOptions())


def test_a_sync_begins_a_table_where_one_was_dropped_that_was_altered(root: Path) -> None:
    said(root, partial(says.with_name, name="code", new="name"))
    dropped(root)
    for n in (2, 3):
        run(root, [schema("s", PROPERTIES), record("s", {"id": n, "n": 1})])
    assert table(root).snapshot().overlay.columns == {}
    assert [name for name, _ in table(root).snapshot().columns] == ["id", "code", "n"]


def test_rows_that_were_checked_by_the_words_of_a_table_dropped_meanwhile_are_not_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(root, partial(says.with_key, names=["code"]))
    commit = Run.commit

    def overtaken(self: Run) -> None:
        dropped(root)
        commit(self)

    lines = [schema("s", PROPERTIES), record("s", {"id": 2, "code": "b"}), state(1)]
    with monkeypatch.context() as patch:
        patch.setattr(Run, "commit", overtaken)
        with pytest.raises(ConflictError, match="was dropped while rows for it arrived"):
            run(root, lines)
    run(root, lines)
    assert table(root).snapshot().schema.key_properties == [], "the tap's key"
