"""The schema of a change: by the members of records, whatever people call their columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from singerlake.format.log import SchemaEntry
from singerlake.format.overlaid import block_columns, laid, names_of, table_columns
from singerlake.format.overlay import TO_TEXT, AddedColumn, ColumnOverlay, Constraint, Overlay
from singerlake.format.written import written_under

TEXT, INTEGER = {"type": ["null", "string"]}, {"type": ["null", "integer"]}
TAP = SchemaEntry(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "a": {"type": "string"}, "o": TEXT},
        "required": ["id", "a"],
    },
    ["id"],
)
REGION = AddedColumn(TEXT, [(0, "EU"), (7, None)])


@pytest.mark.parametrize(
    "overlay",
    [
        Overlay(),
        Overlay(columns={"a": TO_TEXT}),
        Overlay(columns={"a": ColumnOverlay(name="b"), "id": ColumnOverlay(name="pk")}),
        Overlay(columns={"id": ColumnOverlay(name="pk")}, key=["pk"]),
        Overlay(constraints={"c": Constraint("enum", ["o"], values=["x"])}),
    ],
)
def test_names_and_constraints_leave_the_schema_to_the_tap(overlay: Overlay) -> None:
    assert written_under(TAP, overlay).entry is TAP


def test_what_is_hidden_is_declared_and_not_required() -> None:
    overlay = Overlay(
        columns={
            "a": ColumnOverlay(dropped=True),
            "o": ColumnOverlay(name="other", type=INTEGER),
            "region": ColumnOverlay(name="area"),
        },
        added={"region": REGION},
        constraints={"c": Constraint("not-null", ["area"])},
        key=["other"],
    )
    found = written_under(TAP, overlay)
    assert found.entry == SchemaEntry(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "a": {"type": "string"},
                "o": INTEGER,
                "region": TEXT,
            },
            "required": ["id"],
        },
        ["o"],
    )
    assert found.check.schema["required"] == ["id", "region"]
    assert found.check.schema["properties"]["region"] == {"type": "string"}
    assert found.members["area"] == "region"
    assert [(found.members[name], str(type_)) for name, type_ in found.hidden] == [("a", "string")]


def test_an_added_column_that_the_taps_own_hides_is_not_declared() -> None:
    overlay = Overlay(columns={"region": ColumnOverlay(name="o")}, added={"region": REGION})
    found = written_under(TAP, overlay)
    assert "region" not in found.entry.schema["properties"]
    assert "o" not in found.members


_MEMBERS = ("a", "b", "c")
_SPECS = st.sampled_from([{"type": "integer"}, TEXT, {"type": "number", "minimum": 0}, {}])
_COLUMNS = st.dictionaries(
    st.sampled_from(_MEMBERS),
    st.builds(
        ColumnOverlay,
        type=st.sampled_from([None, "text", INTEGER]),
        name=st.none() | st.sampled_from(("x", "y")),
        dropped=st.booleans(),
    ),
).map(lambda found: {m: one for m, one in found.items() if _first_of_its_name(m, found)})


def _first_of_its_name(member: str, columns: dict[str, ColumnOverlay]) -> bool:
    name = columns[member].name
    return name is None or member == next(m for m in columns if columns[m].name == name)


@given(
    properties=st.dictionaries(st.sampled_from((*_MEMBERS, "x")), _SPECS, min_size=1),
    columns=_COLUMNS,
    later=_COLUMNS,
    added=st.booleans(),
    required=st.lists(st.sampled_from(_MEMBERS), unique=True),
)
def test_whatever_people_say_later_finds_what_it_finds_under_the_taps_schema(
    properties: dict[str, Any],
    columns: dict[str, ColumnOverlay],
    later: dict[str, ColumnOverlay],
    added: bool,
    required: list[str],
) -> None:
    tap = SchemaEntry({"type": "object", "properties": properties, "required": required}, ["a"])
    overlay = Overlay(columns=columns, added={"region": REGION} if added else {})
    found = written_under(tap, overlay)
    # Now: exactly the table's columns, and the key.
    shown = laid(tap, overlay, constrained=False)
    assert laid(found.entry, overlay, constrained=False) == shown
    assert {name for name, _ in block_columns(found.entry, overlay).columns} == {
        name for name, _ in table_columns(tap, overlay)
    }
    # Later: the same members under the same names.
    declared = found.entry.schema["properties"]
    then = replace(overlay, columns=later)
    names = names_of(declared, then)
    assert {m: n for m, n in names.items() if m != "region"} == names_of(properties, then)
    assert ("region" in names) is added
