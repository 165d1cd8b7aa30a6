"""What a person may say of columns, key and rows, and how records read from then on. No Spark."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema_rs
import pyarrow as pa
import pytest

from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format.column_list import parse_columns
from singerlake.format.constraints import allows_null
from singerlake.format.laid import laid
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay import Constraint, Overlay
from singerlake.format.overlay_words import differences
from singerlake.format.written import written_under
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.plan import check_log
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange, alter
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.lines.record_texts import RecordTexts
from singerlake.rows.state import newest_rows
from singerlake.rows.state.shape import shape_of
from tests.build import commit_rows

STRING: dict[str, Any] = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "cust_no": STRING,
    "amount": {"type": ["null", "number"]},
    "internal": STRING,
}
MORE: dict[str, Any] = {
    **PROPERTIES,
    "address": {"type": "object", "properties": {"street": STRING}},
    "seen": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "any": {"type": ["string", "integer"]},
    "price": {"anyOf": [{"type": "string", "format": "singer.decimal"}, {"type": "null"}]},
}


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(
        lake,
        "tap.s",
        PROPERTIES,
        ["id"],
        [{"id": 1, "cust_no": "7", "amount": 1.5, "internal": "x"}, {"id": 2, "cust_no": "8"}],
    )
    return lake.find("tap.s")[0]


def said(table: Table, change: OverlayChange, **options: Any) -> TableState:
    alter(table.store, table.snapshot(), change, AlterOptions(**options))
    return table.snapshot()


def rows(table: Table, snapshot: TableState) -> list[dict[str, Any]]:
    """A state's rows, read as a task reads them."""
    shape = shape_of(snapshot)
    blocks = [list(snapshot.blocks)]
    reader = BlockReader.of(table.store, snapshot, blocks, shape.columns, shape.key_names)
    key_reader = BlockReader.of(table.store, snapshot, blocks, shape.key_columns, shape.key_names)

    def plain(batches: Any) -> Any:
        for batch in batches:
            cells = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield from (dict(zip(shape.names, row, strict=False)) for row in cells)

    step = newest_rows.RowStep(reader, shape.survival, plain)
    numbers = iter([pa.RecordBatch.from_pydict({"id": [0]})])
    if not shape.keys:
        return list(step(numbers))
    return list(newest_rows.SingleTaskStep(newest_rows.KeyStep(key_reader, 1), step)(numbers))


def test_an_added_column_has_its_defaults_by_when_rows_came(lake: Lake, table: Table) -> None:
    added = partial(says.with_column, name="region", schema=STRING, default="US", initial="EU")
    head = said(table, added, comment="for the taxes")
    assert [row["region"] for row in rows(table, head)] == ["EU", "EU"]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3}])
    said(table, partial(says.with_default, name="region", default=None))
    declares = {**PROPERTIES, "region": STRING}
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 4}])
    commit_rows(lake, "tap.s", declares, ["id"], [{"id": 2, "region": "JP"}, {"id": 5}])
    head = table.snapshot()
    assert {row["id"]: row["region"] for row in rows(table, head)} == {
        1: "EU", 2: "JP", 3: "US", 4: None, 5: None
    }  # fmt: skip
    assert "region" not in rows(table, head.at(1))[0]
    assert {row["id"]: row["region"] for row in rows(table, head.at(3))}[3] == "US"
    entry = json.loads((Path(lake.store.uri) / table.name.transaction(2)).read_text())
    assert (entry["format"], entry["metadata"]["comment"]) == (5, "for the taxes")


def test_a_column_that_is_added_again_begins_anew(lake: Lake, table: Table) -> None:
    declares = {**PROPERTIES, "region": STRING}
    said(table, partial(says.with_column, name="region", schema=STRING))
    commit_rows(lake, "tap.s", declares, ["id"], [{"id": 1, "region": "JP"}])
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 2}])
    said(table, partial(says.without_column, name="region"))
    assert "region" not in rows(table, table.snapshot())[0]
    numbers = {"type": ["null", "integer"]}
    head = said(table, partial(says.with_column, name="region", schema=numbers, default=9))
    assert [row["region"] for row in rows(table, head)] == [9, 9], "no value of the old column's"


def test_columns_are_renamed_retyped_dropped_and_restored(lake: Lake, table: Table) -> None:
    said(table, partial(says.with_name, name="cust_no", new="customer"))
    integer = {"type": ["null", "integer"]}
    said(table, partial(says.with_type, name="customer", schema=integer))
    head = said(table, partial(says.without_column, name="internal"))
    assert rows(table, head)[0] == {"id": 1, "customer": 7, "amount": 1.5}
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "cust_no": "9", "internal": "y"}])
    assert rows(table, table.snapshot())[2] == {"id": 3, "customer": 9, "amount": None}
    head = said(table, partial(says.with_restored, name="internal"))
    assert [row["internal"] for row in rows(table, head)] == ["x", None, "y"]
    head = said(table, partial(says.with_name, name="customer", new="cust_no"))
    assert head.overlay.columns["cust_no"].name is None
    assert list(rows(table, head.at(1))[0]) == list(PROPERTIES), "the past is as it was"


def test_records_under_the_laid_schema_read_alike(lake: Lake, table: Table) -> None:
    said(table, partial(says.with_column, name="region", schema=STRING, default="EU"))
    head = said(table, partial(says.with_name, name="cust_no", new="customer"))
    under = laid(head.tap_schema, head.overlay).schema["properties"]
    commit_rows(lake, "tap.s", under, ["id"], [{"id": 1, "customer": "70", "region": None}])
    assert rows(table, table.snapshot())[1]["customer"] == "70"
    assert {row["id"]: row["region"] for row in rows(table, table.snapshot())} == {1: None, 2: "EU"}


def test_a_key_that_a_person_gives_folds_rows_from_then_on(lake: Lake, table: Table) -> None:
    head = said(table, partial(says.with_key, names=["cust_no"]))
    assert head.schema.key_properties == ["cust_no"]
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 9, "cust_no": "7"}])
    assert sorted(row["id"] for row in rows(table, table.snapshot())) == [2, 9]
    assert sorted(row["id"] for row in rows(table, table.snapshot().at(1))) == [1, 2]


def test_misfits_are_told_by_the_name_that_people_see(table: Table) -> None:
    said(table, partial(says.with_name, name="cust_no", new="customer"))
    dates = {"type": ["null", "string"], "format": "date"}
    head = said(table, partial(says.with_type, name="customer", schema=dates))
    shape = shape_of(head)
    reader = BlockReader.of(table.store, head, [list(head.blocks)], shape.columns, shape.key_names)
    (batch,) = reader.rows(head.blocks)
    ((index, text),) = batch.column("p4" if "p4" in batch.schema.names else 8).to_pylist()[0]
    assert shape.names[index] == "customer"
    assert "column 'customer'" in text
    assert "cannot become date" in text


def asked(kind: Any, *columns: str, **more: Any) -> OverlayChange:
    one = Constraint(kind, [*columns], **more)
    return partial(says.with_constraint, name="c", constraint=one)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (partial(says.with_column, name="id", schema=STRING), UsageError, "has a column 'id'"),
        (partial(says.with_column, name="_delete", schema=STRING), UsageError, "of its own"),
        (partial(says.with_column, name="x", schema={"type": "integer"}, default="a"),
         UsageError, "the default of column 'x'"),
        (partial(says.with_column, name="x", schema={"type": "integer", "maximum": 3}, default=4),
         UsageError, "not allowed by the column's schema"),
        (partial(says.without_column, name="id"), UsageError, "part of the key"),
        (partial(says.without_column, name="amuont"), NotFoundError, "did you mean amount"),
        (partial(says.with_restored, name="amount"), NotFoundError, "was dropped"),
        (partial(says.with_name, name="amount", new="id"), UsageError, "has a column 'id'"),
        (partial(says.with_type, name="id", schema={"type": "array", "items": STRING}),
         UsageError, "part of the key of tap.s: it can be made text"),
        (partial(says.with_default, name="amount", default="x"), UsageError, "default of column"),
        (partial(says.with_key, names=[]), UsageError, "name the columns"),
        (partial(says.with_key, names=["id", "id"]), UsageError, "named twice"),
        (partial(says.with_key, names=["nope"]), NotFoundError, "no column 'nope'"),
        (partial(says.with_constraint, name="c", constraint=Constraint("range", ["cust_no"],
         minimum=1)), UsageError, "range is about numbers"),
        (partial(says.with_constraint, name="c", constraint=Constraint("range", ["amount"],
         minimum=2, maximum=1)), UsageError, "is empty"),
        (partial(says.with_constraint, name="c", constraint=Constraint("pattern", ["cust_no"],
         pattern="(")), UsageError, "not a regular expression"),
        (partial(says.without_constraint, name="c"), NotFoundError, "no constraint 'c'"),
        (asked("length", "cust_no", minimum=-1), UsageError, "whole number from 0, not -1"),
        (asked("length", "cust_no", minimum=0.5), UsageError, "whole number from 0, not 0.5"),
        (asked("length", "cust_no", maximum=1e30), UsageError, "whole number from 0"),
        (asked("range", "amount", maximum=math.inf), UsageError, "not a double"),
        (asked("range", "amount", maximum=10**400), UsageError, "not a double"),
        (asked("enum", "amount", values=["x"]), UsageError, "is not a valid number"),
        (asked("enum", "amount", values=[None]), UsageError, "names no value"),
        (asked("enum", "amount", values=[1, math.nan]), UsageError, "nan is not a JSON number"),
        (asked("enum", "amount", values=[math.inf]), UsageError, "inf is not a JSON number"),
        (asked("enum", "address", values=[{"street": "x"}]), UsageError, "about single values"),
        (asked("enum", "seen", values=["2026-01-01T00:00:00Z"]), UsageError, "spelled in many"),
        (asked("enum", "any", values=[1]), UsageError, "each value of the enum as a string"),
        (asked("range", "price", maximum=1), UsageError, "decimals as strings"),
        (asked("enum", "price", values=["1.5"]), UsageError, "decimals as strings"),
    ],
)  # fmt: skip
def test_what_cannot_be_said(
    lake: Lake, table: Table, change: OverlayChange, kind: type[Exception], words: str
) -> None:
    commit_rows(lake, "tap.s", MORE, ["id"], [])
    number = table.snapshot().number
    with pytest.raises(kind, match=words):
        alter(table.store, table.snapshot(), change)
    assert table.snapshot().number == number


def under(head: TableState, schema: dict[str, Any]) -> TableState:
    """A table whose tap sends another schema."""
    entry = SchemaEntry(schema, ["id"])
    return replace(head, schemas={**head.schemas, head.schema_hash: entry})


def test_a_default_is_held_against_a_schema_in_parts(table: Table) -> None:
    digit = {"type": ["null", "integer"], "maximum": 9, "default": 3}
    part = {"properties": {"id": {"type": "integer"}, "n": {"$ref": "#/definitions/digit"}}}
    definitions = {"digit": {"allOf": [{"$ref": "#/definitions/least"}, digit]},
                   "least": {"minimum": 0}}  # fmt: skip
    whole = {"type": "object", "definitions": definitions}
    for schema in (
        {**whole, "allOf": [part]},
        {**whole, **part},
        {"$ref": "#/definitions/row", "definitions": {**definitions, "row": part}},
    ):
        head = under(table.snapshot(), schema)
        for wrong in (10, -1, "x"):
            with pytest.raises(UsageError, match="the default of column 'n'"):
                says.with_default(head, "n", wrong)
        for default, later in ((5, 6), (None, 6)):
            after = head.laid_over(says.with_default(head, "n", default))
            assert new_row(after) == {"id": 1, "n": default}
            again = after.laid_over(says.with_default(after, "n", later))
            assert new_row(again) == {"id": 1, "n": later}
        assert new_row(head) == {"id": 1, "n": 3}, "the tap's"


def test_a_decimal_default_is_held_against_every_bound(lake: Lake, table: Table) -> None:
    (column,) = parse_columns("d decimal(4,2)")
    exact = "0.123456789012345678"
    wide = {"type": ["null", "number"], "format": "singer.decimal", "scale": 18}
    stated = {**wide, "type": "string", "pattern": "^[0-4]", "scale": 1}
    properties = {
        **PROPERTIES, "d": column.property(), "w": {**wide, "maximum": 0.1}, "s": stated, "e": wide
    }  # fmt: skip
    commit_rows(lake, "tap.s", properties, ["id"], [])
    head = said(table, asked("enum", "e", values=[exact, 2]))
    for name, good, wrong in (
        ("d", [99.99, "99.99", "-99.99", 0, None], [123.45, "123.45", 100, "-100"]),
        ("w", ["0.1", 0.1], ["0.100000000000000001", 1]),
        ("s", ["4.5"], ["5.5"]),
        ("e", [exact, 2.0, "2"], ["0.123456789012345679", 3]),
    ):
        for value in good:
            says.with_default(head, name, value)
        for value in wrong:
            with pytest.raises(UsageError, match=f"the default of column '{name}'"):
                says.with_default(head, name, value)
    for more in ({"default": 123.45}, {"default": 1, "initial": "123.45"}):
        with pytest.raises(UsageError, match="of column 'x', \"?123.45\"?, is not allowed"):
            says.with_column(head, "x", column.property(), **more)
    change = partial(says.with_default, name="cust_no", default="123.45")
    head = said(table, change)
    with pytest.raises(UsageError, match="the default of column 'cust_no'"):
        says.with_type(head, "cust_no", column.property())


def test_a_constraint_that_a_default_breaks_is_refused(table: Table) -> None:
    number: dict[str, Any] = {"type": ["null", "number"]}
    decimal = parse_columns("x decimal(12,2)")[0].property()
    said(table, partial(says.with_column, name="n", schema=number, default=5))
    said(table, partial(says.with_column, name="price", schema=decimal, default="1.25"))
    head = said(table, partial(says.with_default, name="cust_no", default="A7"))
    for column, breaks in (
        ("n", asked("range", "n", maximum=4)),
        ("price", asked("enum", "price", values=[1, 2])),
        ("cust_no", asked("pattern", "cust_no", pattern="^[0-9]+$")),
        ("cust_no", asked("length", "cust_no", maximum=1)),
    ):
        with pytest.raises(UsageError, match=f"the default of column '{column}'"):
            breaks(head)
    for holds in (
        asked("range", "n", minimum=5),
        asked("enum", "price", values=[1.25]),
        asked("unique", "n"),
        asked("not-null", "cust_no"),
        asked("not-null", "amount"),  # of no default nothing is asked
    ):
        assert holds(head).constraints.keys() == {"c"}


def test_the_last_column_stays(lake: Lake) -> None:
    commit_rows(lake, "tap.one", {"id": {"type": "integer"}, "n": {"type": "integer"}}, [], [])
    table = lake.table("tap.one")
    said(table, partial(says.without_column, name="n"))
    with pytest.raises(UsageError, match="column 'id' is the only one of tap.one"):
        alter(table.store, table.snapshot(), partial(says.without_column, name="id"))
    said(table, partial(says.with_column, name="x", schema=STRING))
    said(table, partial(says.without_column, name="id"))
    assert [name for name, _ in table.snapshot().columns] == ["x"]


def test_no_default_is_null_where_no_value_may_be(lake: Lake, table: Table) -> None:
    commit_rows(lake, "tap.s", {**PROPERTIES, "n": {"type": "string"}}, ["id"], [])
    words = "must not be null"
    with pytest.raises(UsageError, match=words):
        says.with_default(table.snapshot(), "n", None)
    with pytest.raises(UsageError, match=words):
        says.with_column(table.snapshot(), "x", {"type": "integer"})
    with pytest.raises(UsageError, match=words):
        says.with_column(table.snapshot(), "x", {"type": "integer"}, default=1, initial=None)
    head = said(table, partial(says.with_default, name="cust_no", default=None))
    head = head.laid_over(asked("not-null", "cust_no")(head))
    with pytest.raises(UsageError, match=words):
        says.with_default(head, "cust_no", None)
    integer = {"type": ["null", "integer"]}
    assert says.with_type(head, "cust_no", integer), "of what was said before nothing is asked"


def new_row(head: TableState) -> dict[str, Any]:
    """The record of a new row that has only an id."""
    under = written_under(head.tap_schema, head.overlay, head.rules)
    texts = RecordTexts(head.columns, under.shown, members=under.members)
    (record,) = texts.records(pa.RecordBatch.from_pydict({alias(0): [1]}), [0]).texts
    return dict(json.loads(record))


def test_constraints_are_kept_as_values_are_compared(lake: Lake, table: Table) -> None:
    commit_rows(lake, "tap.s", MORE, ["id"], [])
    head = table.snapshot()

    def kept(change: OverlayChange) -> Constraint:
        return change(head).constraints["c"]

    assert repr(kept(asked("enum", "id", values=[1.0, 1, None, 2e3])).values) == "[1, 2000]"
    assert kept(asked("enum", "day", values=["2026-01-02T00:00:00Z"])).values == ["2026-01-02"]
    assert kept(asked("enum", "any", values=["1", "a"])).values == ["1", "a"]
    assert repr(kept(asked("length", "cust_no", maximum=2.0)).maximum) == "2"
    digits = "0.12345678901234567890"
    assert kept(asked("enum", "amount", values=[Decimal(digits)])).values == [float(digits)]
    head = said(table, partial(says.with_type, name="amount", schema=None))
    with pytest.raises(UsageError, match="was made text, and the tap's schema of it allows no str"):
        kept(asked("enum", "amount", values=["1.5"]))
    again = asked("enum", "id", values=[1.0])
    after = head.laid_over(again(head))
    assert again(after) == after.overlay, "it says the same"


def test_an_enum_of_decimals_keeps_every_digit(lake: Lake, table: Table) -> None:
    """As doubles, several of these would be one."""
    decimal = {"type": ["null", "number"], "format": "singer.decimal", "scale": 18}
    commit_rows(lake, "tap.s", {**PROPERTIES, "d": decimal}, ["id"], [])
    exact = "0.123456789012345678"
    big = 12345678901234567891
    head = said(table, asked("enum", "d", values=[1.50, Decimal("2.50"), big]))
    assert head.overlay.constraints["c"].values == [1.5, 2.5, big]
    assert head.schema.schema["properties"]["d"]["enum"] == [1.5, 2.5, big, None]
    head = said(table, partial(says.without_constraint, name="c"))
    head = said(table, asked("enum", "d", values=[Decimal(exact), 2, "1.5"]))
    assert head.overlay.constraints["c"].values == [exact, 2, 1.5]
    assert "enum" not in head.schema.schema["properties"]["d"], "of doubles it would be untrue"
    with pytest.raises(UsageError, match="is not a valid decimal"):
        head.laid_over(asked("enum", "d", values=["x"])(head))


@pytest.mark.parametrize(
    ("rule", "type_"),
    [
        (asked("range", "amount", minimum=0), None),
        (asked("range", "amount", minimum=0), STRING),
        (asked("enum", "amount", values=[1.5]), None),
        (asked("enum", "amount", values=[1.5]), {"type": "integer"}),
        (asked("pattern", "cust_no", pattern="^1"), {"type": "integer"}),
    ],
)
def test_no_type_is_given_that_a_constraint_is_none_for(
    table: Table, rule: OverlayChange, type_: dict[str, Any] | None
) -> None:
    head = said(table, rule)
    (column,) = head.overlay.constraints["c"].columns
    with pytest.raises(UsageError, match="while the constraint 'c' is about it.*drop the cons"):
        said(table, partial(says.with_type, name=column, schema=type_))
    assert table.snapshot().overlay == head.overlay


def test_a_new_type_leaves_a_column_its_nulls(lake: Lake, table: Table) -> None:
    for wanted in ({"type": "integer"}, {"type": "integer", "enum": [7, 8]}):
        head = said(table, partial(says.with_type, name="cust_no", schema=wanted))
        spec = head.schema.schema["properties"]["cust_no"]
        assert allows_null(spec, head.schema.schema)
        assert jsonschema_rs.is_valid(spec, None)
        assert not jsonschema_rs.is_valid(spec, "7")
        said(table, partial(says.with_type, name="cust_no", schema=STRING))
    commit_rows(lake, "tap.s", {**PROPERTIES, "n": {"type": "integer"}}, ["id"], [])
    head = said(table, partial(says.with_type, name="n", schema={"type": "number"}))
    assert head.schema.schema["properties"]["n"] == {"type": "number"}


def test_names_that_mean_something_are_not_given_anew(table: Table) -> None:
    said(table, partial(says.with_name, name="cust_no", new="customer"))
    said(table, partial(says.without_column, name="internal"))
    column = partial(says.with_column, schema=STRING)
    with pytest.raises(UsageError, match="calls 'customer' 'cust_no'"):
        said(table, partial(column, name="cust_no"))
    with pytest.raises(UsageError, match="restore it with restore-column"):
        said(table, partial(column, name="internal"))
    rule = Constraint("range", ["amount"], minimum=0)
    said(table, partial(says.with_constraint, name="paid", constraint=rule))
    with pytest.raises(UsageError, match="constraint 'paid' is about it"):
        said(table, partial(says.without_column, name="amount"))


def test_key_and_constraints_go_with_a_renamed_column(table: Table) -> None:
    said(table, partial(says.with_key, names=["cust_no"]))
    one = Constraint("length", ["cust_no"], maximum=9)
    said(table, partial(says.with_constraint, name="short", constraint=one))
    overlay = said(table, partial(says.with_name, name="cust_no", new="customer")).overlay
    assert (overlay.key, overlay.constraints["short"].columns) == (["customer"], ["customer"])


def test_a_condition_goes_with_renamed_columns(table: Table) -> None:
    sql = "exists(`cust_no`, x -> x > `amount`.`amount`) -- `amount`\n or `amount` = '`amount`'"
    one = Constraint("check", ["cust_no", "amount"], sql=sql)
    head = table.snapshot()
    head = head.laid_over(Overlay(constraints={"c": one}))
    with pytest.raises(UsageError, match="'c' of tap.s has a variable 'X'"):
        says.with_name(head, "amount", "X")
    after = says.with_name(head, "amount", "a `b`").constraints["c"]
    assert after.columns == ["cust_no", "a `b`"]
    assert after.sql == (
        "exists(`cust_no`, x -> x > `a ``b```.`amount`) -- `amount`\n or `a ``b``` = '`amount`'"
    )
    with pytest.raises(UsageError, match="while the constraint 'c' is about it|constraint 'c'"):
        says.without_column(head, "amount")


def test_two_at_once_keep_what_both_said_and_if_transaction_does_not(table: Table) -> None:
    before = table.snapshot()
    alter(table.store, before, partial(says.with_column, name="a", schema=STRING))
    alter(table.store, before, partial(says.with_column, name="b", schema=STRING))
    assert [*table.snapshot().overlay.added] == ["a", "b"]
    late = AlterOptions(if_transaction=before.number)
    change = partial(says.with_column, name="c", schema=STRING)
    with pytest.raises(ConflictError, match="not 1 any more"):
        alter(table.store, before, change, late)


def test_what_changes_is_said_in_words(table: Table) -> None:
    head = table.snapshot()
    changes: list[OverlayChange] = [
        partial(says.with_column, name="region", schema=STRING, default="EU"),
        partial(says.with_default, name="region", default=None),
        partial(says.with_name, name="cust_no", new="customer"),
        partial(says.with_type, name="customer", schema={"type": ["null", "integer"]}),
        partial(says.without_column, name="internal"),
        partial(says.with_key, names=["customer"]),
        partial(says.with_constraint, name="c", constraint=Constraint("enum", ["region"],
                values=["EU"])),
    ]  # fmt: skip
    for change in changes:
        head = head.laid_over(change(head))
    assert differences(Overlay(), head.overlay) == [
        "added region (string)",
        "renamed cust_no to customer",
        "customer is int64",
        "dropped internal",
        "key customer",
        "constraint c: region one of EU",
    ]
    assert differences(head.overlay, Overlay())[0] == "dropped region"


@pytest.mark.parametrize("lost", ["manifest.json", "transactions", "entry"])
def test_it_survives_what_is_lost_and_rebuilt(lake: Lake, table: Table, lost: str) -> None:
    said(table, partial(says.with_column, name="region", schema=STRING, default="EU"))
    said(table, partial(says.with_key, names=["cust_no"]))
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "cust_no": "7"}])
    overlay, wanted = table.snapshot().overlay, rows(table, table.snapshot())
    folder = Path(lake.store.uri) / table.name.folder
    if lost == "manifest.json":
        (folder / lost).unlink()
    elif lost == "transactions":
        shutil.rmtree(folder / lost)
    else:
        (folder / "transactions" / "000000000002.json").unlink()
    rebuild_table(table.store, table.name)
    (folder / "manifest.json").unlink()  # the log alone must say it again
    again = Lake.open(lake.store.uri).find("tap.s")[0]
    assert again.snapshot().overlay == overlay
    assert rows(again, again.snapshot()) == wanted
    assert not check_log(again.store, again.name).problems


def test_what_is_said_shows_in_the_catalogue(lake: Lake, table: Table) -> None:
    said(table, partial(says.with_description, name="amount", text="In euros"))
    catalogue = lake.catalogue("tap")
    assert catalogue is not None
    assert catalogue.streams[0].schema["properties"]["amount"]["description"] == "In euros"
