"""What two states of a table are called, how their schemas differ, and how rows find each other."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake
from singerlake.log import schema_difference as difference
from singerlake.log.schema_difference import Comparison, Matching
from singerlake.log.table_state import TableState
from singerlake.ops.freeze import commit_version
from singerlake.ops.freeze import plan as plan_freeze
from singerlake.overlay import alter, overlay_changes
from tests.build import commit_rows, retype

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def commit(lake: Lake, properties: dict[str, Any], keys: list[str]) -> TableState:
    return commit_rows(lake, "tap.s", properties, keys, [{"id": 1}])


def frozen(lake: Lake, label: str | None = None) -> TableState:
    head = lake.find("tap.s")[0].snapshot()
    commit_version(lake.store, head, plan_freeze(head, label=label), rows=1, fingerprint="0" * 32)
    return lake.find("tap.s")[0].snapshot()


def schema_of(compared: Comparison) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(one.change, one.column, one.before, one.after) for one in compared.schema]


def test_how_schemas_differ(lake: Lake) -> None:
    old = {
        "id": INTEGER,
        "gone": STRING,
        "grew": INTEGER,
        "told": {**STRING, "description": "one"},
        "limited": STRING,
        "same": {"type": ["null", "string"]},
    }
    new = {
        "id": INTEGER,
        "grew": {"type": "number", "multipleOf": 0.01},
        "told": {**STRING, "description": "two"},
        "limited": {**STRING, "maxLength": 3},
        "same": {"type": ["null", "string"]},
        "came": {"type": "boolean"},
    }
    commit(lake, old, ["id"])
    head = commit(lake, new, ["id"])
    assert schema_of(difference.plan(head, "@1")) == [
        ("added", "came", None, "boolean"),
        ("removed", "gone", "string", None),
        ("retyped", "grew", "int64", "decimal(38,2)"),
        ("rules", "limited", '{"type": "string"}', '{"maxLength": 3, "type": "string"}'),
        ("description", "told", "one", "two"),
    ]
    back = {change[0] for change in schema_of(difference.plan(head, "@2", "@1"))}
    assert back == {"added", "removed", "retyped", "rules", "description"}
    assert [str(one) for one in difference.plan(head, "@1").schema] == [
        "column 'came' was added (boolean)",
        "column 'gone' was removed (string)",
        "column 'grew' changed from int64 to decimal(38,2)",
        'the schema of column \'limited\' changed from {"type": "string"} to '
        '{"maxLength": 3, "type": "string"}',
        "the description of column 'told' changed from one to two",
    ]


def test_what_a_person_makes_text_is_a_change_of_type(lake: Lake) -> None:
    commit(lake, {"id": INTEGER, "v": INTEGER}, ["id"])
    table = lake.find("tap.s")[0]
    retype(table.store, table.snapshot(), "v")
    compared = difference.plan(table.snapshot(), "@1")
    assert schema_of(compared) == [("retyped", "v", "int64", "text")]
    assert compared.matching is Matching.KEY
    assert not compared.same_state


def test_what_people_lay_over_a_table(lake: Lake) -> None:
    """A column that is called otherwise is the same column, in a key too."""
    commit(lake, {"id": INTEGER, "v": STRING}, ["id"])
    table = lake.find("tap.s")[0]
    for change in (
        lambda head: overlay_changes.with_name(head, "id", "nr"),
        lambda head: overlay_changes.with_name(head, "v", "w"),
        lambda head: overlay_changes.with_description(head, "w", "what"),
        lambda head: overlay_changes.without_column(head, "w"),
    ):
        alter.alter(table.store, table.snapshot(), change)
    compared = difference.plan(table.snapshot(), "@1", "@4")
    assert schema_of(compared) == [
        ("renamed", "nr", "id", "nr"),
        ("renamed", "w", "v", "w"),
        ("key", None, "id", "nr"),
        ("description", "w", None, "what"),
    ]
    assert compared.matching is Matching.LATER_KEY
    assert difference.plan(table.snapshot(), "@2", "@4").matching is Matching.KEY
    assert schema_of(difference.plan(table.snapshot(), "@4")) == [("removed", "w", "string", None)]


@pytest.mark.parametrize(
    ("before", "after", "matching", "key"),
    [
        (["id"], ["id"], Matching.KEY, None),
        (["id", "v"], ["v", "id"], Matching.LATER_KEY, ("id, v", "v, id")),
        ([], ["id"], Matching.LATER_KEY, (None, "id")),
        (["id"], ["id", "v"], Matching.LATER_KEY, ("id", "id, v")),
        (["id"], [], Matching.POSITION, ("id", None)),
        ([], [], Matching.POSITION, None),
    ],
)
def test_how_rows_find_each_other(
    lake: Lake, before: list[str], after: list[str], matching: Matching, key: tuple[str, str] | None
) -> None:
    properties = {"id": INTEGER, "v": STRING}
    commit(lake, properties, before)
    compared = difference.plan(commit(lake, properties, after), "@1")
    assert compared.matching is matching
    assert [(one.before, one.after) for one in compared.schema] == ([] if key is None else [key])
    said = " ".join(compared.notes())
    assert (matching is Matching.KEY) is (said == "")
    if matching is Matching.LATER_KEY:
        assert f"matched by that of the head (transaction 2) ({', '.join(after)})" in said


def test_a_key_of_another_type_is_not_the_same_key(lake: Lake) -> None:
    commit(lake, {"id": INTEGER}, ["id"])
    head = commit_rows(lake, "tap.s", {"id": STRING}, ["id"], [{"id": "1"}])
    assert difference.plan(head, "@1").matching is Matching.LATER_KEY


def test_a_key_that_the_first_state_has_no_column_for(lake: Lake) -> None:
    commit(lake, {"id": INTEGER}, ["id"])
    head = commit(lake, {"id": INTEGER, "part": STRING}, ["id", "part"])
    with pytest.raises(UsageError, match=r"at transaction 1 has no column 'part'.*key at the head"):
        difference.plan(head, "@1")
    assert difference.plan(head, "@2", "@1").matching is Matching.LATER_KEY


def test_states_are_named_by_number_label_and_transaction(lake: Lake) -> None:
    commit(lake, {"id": INTEGER}, ["id"])
    frozen(lake, "q3")
    frozen(lake)
    head = commit(lake, {"id": INTEGER}, ["id"])
    for name, words in (
        ("1", "version 1 (q3, transaction 1)"),
        ("q3", "version 1 (q3, transaction 1)"),
        ("2", "version 2 (transaction 2)"),
        ("@3", "transaction 3"),
    ):
        assert str(difference.plan(head, name).before) == words
    compared = difference.plan(head, "1", "@4")
    assert (str(compared.after), compared.same_state) == ("transaction 4", False)
    assert str(difference.plan(head, "1").after) == "the head (transaction 4)"
    assert difference.plan(head, "q3", "@3").same_state
    with pytest.raises(NotFoundError, match=r"no version '3': .*; transaction 3 is written @3$"):
        difference.plan(head, "3")
    with pytest.raises(NotFoundError, match=r"no version '17': it has 2, 1 \(q3\)$"):
        difference.plan(head, "1", "17")
    with pytest.raises(NotFoundError, match="has no transaction 9: its last is 4"):
        difference.plan(head, "@9")
