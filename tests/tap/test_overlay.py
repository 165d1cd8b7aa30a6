"""What a person said of a table goes out with its rows, and another target comes to the same."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import OverlayChange, alter
from tests.build import commit_rows
from tests.cli.call import run as call
from tests.overlay.test_overlay_changes import rows
from tests.tap.run import Run, run
from tests.target.harness import TAP
from tests.target.harness import run as load

STRING: dict[str, Any] = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "code": STRING, "internal": STRING}
ODD = '{"id":  1, "code" : "\\u0037", "more": 1.10, "internal": "x"}'


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [ODD, {"id": 2, "code": "8"}])
    return lake.find("tap.s")[0]


def said(table: Table, *changes: OverlayChange) -> None:
    for change in changes:
        alter(table.store, table.snapshot(), change)


def arrives(root: Path, out: Run) -> list[dict[str, Any]]:
    """The rows of a lake that takes what a tap put out."""
    lines = [line for line, kind in zip(out.lines, out.kinds, strict=True) if kind != "STATE"]
    load(root, b"".join(lines))
    copied = Lake.open(str(root)).find(f"{TAP}.s")[0]
    return sorted(rows(copied, copied.snapshot()), key=lambda row: str(row["id"]))


def test_rows_go_out_as_people_see_them(lake: Lake, table: Table, tmp_path: Path) -> None:
    said(
        table,
        partial(says.with_name, name="code", new="customer"),
        partial(says.with_type, name="customer", schema={"type": ["null", "integer"]}),
        partial(says.with_column, name="region", schema=STRING, default="US", initial="EU"),
        partial(says.without_column, name="internal"),
    )
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "code": "9", "internal": "y"}])
    out = run(lake)
    assert b'{"id":  1, "more": 1.10, "customer": 7, "region": "EU"}' in out.lines[1]
    properties = out.of("SCHEMA")[0]["schema"]["properties"]
    assert list(properties) == ["id", "customer", "region"]
    assert properties["customer"] == {"type": ["null", "integer"]}
    wanted = [
        {"id": 1, "customer": 7, "region": "EU"},
        {"id": 2, "customer": 8, "region": "EU"},
        {"id": 3, "customer": 9, "region": "US"},
    ]
    assert rows(table, table.snapshot()) == wanted
    assert arrives(tmp_path / "copy", out) == wanted


def test_lines_of_which_nothing_is_said_keep_their_bytes(lake: Lake, table: Table) -> None:
    before = run(lake).raw_records()
    words = partial(says.with_description, name="code", text="The till's")
    said(table, words, partial(says.with_column, name="later", schema=STRING))
    out = run(lake)
    assert out.raw_records() == before
    assert out.of("SCHEMA")[0]["schema"]["properties"]["code"]["description"] == "The till's"


def test_who_reads_on_comes_to_the_same(lake: Lake, table: Table, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    first = run(lake)
    arrives(copy, first)
    said(table, partial(says.with_key, names=["code"]))
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 9, "code": "8"}])
    second = run(lake, first.state)
    assert [record["id"] for record in second.records()] == [9], "only what is new"
    assert second.of("SCHEMA")[-1]["key_properties"] == ["code"]
    assert arrives(copy, second) == rows(table, table.snapshot())
    said(table, partial(says.with_name, name="internal", new="note"))
    third = run(lake, second.state)
    assert len(third.records()) == 3, "all of it again, for its columns have changed"
    assert arrives(copy, third) == rows(table, table.snapshot())
    assert run(lake, third.state).records() == []


def test_a_target_that_cannot_be_told_of_other_columns_gets_all_rows_anew(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    """Without a key its rows would be there twice; under a renamed one, by two names."""
    copy = tmp_path / "copy"
    commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 1, "code": "7"}, {"id": 1, "code": "7"}])
    first = run(lake)
    arrives(copy, first)
    said(table, partial(says.with_name, name="code", new="customer"))
    second = run(lake, first.state)
    kinds = [kind for kind in second.kinds if kind != "STATE"]
    assert kinds[:3] == ["SCHEMA", "ACTIVATE_VERSION", "ACTIVATE_VERSION"]
    wanted = rows(table, table.snapshot())
    assert sorted(map(str, arrives(copy, second))) == sorted(map(str, wanted))
    assert run(lake, second.state).of("ACTIVATE_VERSION") == []
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 2, "code": "8"}])
    third = run(lake, second.state)
    arrives(copy, third)
    said(table, partial(says.with_name, name="id", new="number"))
    fourth = run(lake, third.state)
    wanted = rows(table, table.snapshot())
    load(copy, b"".join(x for x, k in zip(fourth.lines, fourth.kinds, strict=True) if k != "STATE"))
    copied = Lake.open(str(copy)).find(f"{TAP}.s")[0]
    assert sorted(map(str, rows(copied, copied.snapshot()))) == sorted(map(str, wanted))
    assert {row["number"] for row in wanted} == {1, 2}


def test_older_rows_need_not_keep_what_was_asked_later(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3}])
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "code": "c"}])
    rule = Constraint("not-null", ["code"])
    said(table, partial(says.with_constraint, name="coded", constraint=rule))
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 4, "code": "d"}])
    out = run(lake)
    schemas = [message["schema"]["properties"]["code"] for message in out.of("SCHEMA")]
    assert schemas == [STRING, {"type": "string"}]
    assert [row["id"] for row in arrives(tmp_path / "copy", out)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("spec", "spelled"),
    [
        ({"type": "number"}, ["1.0", "1e21", "-0.0"]),
        ({"type": "number", "format": "singer.decimal", "scale": 2}, ["1.5", "1"]),
        ({"type": "string", "format": "date-time"}, ['"2026-01-01T12:00:00+02:00"']),
        ({"type": "boolean"}, ["true"]),
        ({"type": "object", "properties": {"b": {"type": "number"}}}, ['{ "b": 1.0 }']),
        ({"type": "array", "items": {"type": "integer"}}, ["[1,  2.0]"]),
        ({"type": "string"}, ['"\\u0041 "']),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_value_of_another_type_goes_out_as_the_table_shows_it(
    lake: Lake, tmp_path: Path, spec: dict[str, Any], spelled: list[str]
) -> None:
    properties = {"id": {"type": "integer"}, "value": spec}
    lines = [f'{{"id": {n}, "value": {text}}}' for n, text in enumerate(spelled)]
    commit_rows(lake, "tap.s", properties, ["id"], [*lines])
    table = lake.find("tap.s")[0]
    said(table, partial(says.with_type, name="value", schema=STRING))
    wanted = rows(table, table.snapshot())
    out = run(lake)
    assert out.records() == wanted
    assert arrives(tmp_path / "copy", out) == wanted


@pytest.mark.parametrize("name", ["customer", "größe"])
def test_what_the_tap_never_declared_does_not_go_out_as_a_column_of_that_name(
    lake: Lake, table: Table, tmp_path: Path, name: str
) -> None:
    spelled = json.dumps(name)  # with escapes, where it is not ASCII
    odd = f'{{"id": 3, {spelled}: "never declared", "code": "9", "region": "nor this"}}'
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [odd, f'{{"id": 4, {spelled}: "nor here"}}'])
    said(table, partial(says.with_column, name="region", schema=STRING))
    assert [record.get("region") for record in run(lake).records()] == [None] * 4
    said(table, partial(says.with_name, name="code", new=name))
    out = run(lake)
    assert [record.get(name) for record in out.records()] == ["7", "8", "9", None]
    wanted = rows(table, table.snapshot())
    assert [row[name] for row in wanted] == ["7", "8", "9", None]
    assert arrives(tmp_path / "copy", out) == wanted


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("renamed", [False, True])
def test_column_that_was_added_and_dropped_does_not_go_out(
    lake: Lake, table: Table, tmp_path: Path, renamed: bool
) -> None:
    """Rows that had a value of it do not either: queries show none, at the head and in versions."""
    given = tmp_path / "rows.csv"
    given.write_text("id,code,internal,extra\n3,9,z,hey\n")
    said(table, partial(says.with_column, name="extra", schema=STRING))
    assert call(lake, "upload", "tap.s", str(given), "--key", "id").exit_code == 0
    assert run(lake).records()[-1]["extra"] == "hey"
    last = "extra"
    if renamed:
        last = "more"
        said(table, partial(says.with_name, name="extra", new=last))
    said(table, partial(says.without_column, name=last))
    assert call(lake, "freeze", "tap.s").exit_code == 0
    call(lake, "query", "select * from tap.s.1")
    for settings in ({}, {"table_version": "1"}):
        out = run(lake, **settings)
        assert [[*one["schema"]["properties"]] for one in out.of("SCHEMA")] == [[*PROPERTIES]]
        assert [*out.records()[-1]] == [*PROPERTIES]
        assert b"hey" not in out.out
    said(table, partial(says.with_column, name="extra", schema=STRING, default="new"))
    assert [one["extra"] for one in run(lake).records()] == ["new"] * 3


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("default", [None, 5])
@pytest.mark.parametrize("uploaded", [False, True])
def test_added_column_goes_out_with_its_own_type_after_a_dropped_one_of_its_name(
    lake: Lake, table: Table, tmp_path: Path, default: int | None, uploaded: bool
) -> None:
    """The schema of the rows from before declares the dropped one; no query shows it."""
    given = tmp_path / "rows.csv"
    given.write_text("id,code,internal,extra\n3,9,z,12\n4,9,z,hey\n")
    said(table, partial(says.with_column, name="extra", schema=STRING))
    assert call(lake, "upload", "tap.s", str(given)).exit_code == 0
    said(table, partial(says.without_column, name="extra"))
    integer = {"type": ["null", "integer"]}
    said(table, partial(says.with_column, name="extra", schema=integer, default=default))
    if uploaded:
        given.write_text("id,code,internal,extra\n5,9,z,7\n")
        assert call(lake, "upload", "tap.s", str(given)).exit_code == 0
    assert call(lake, "freeze", "tap.s").exit_code == 0
    call(lake, "query", "select * from tap.s.1")
    wanted = rows(table, table.snapshot())
    assert [row["extra"] for row in wanted][:4] == [default] * 4
    for number, settings in enumerate(({}, {"table_version": "1"}, {"mode": "rows"})):
        more = {"table_version": "1"} if "mode" in settings else {}
        out = run(lake, **settings, **more)
        specs = [one["schema"]["properties"]["extra"] for one in out.of("SCHEMA")]
        assert {str(spec["type"]) for spec in specs} == {str(integer["type"])}
        assert arrives(tmp_path / f"copy{number}", out) == wanted


def test_column_that_a_tap_stops_sending_goes_out_as_it_came(lake: Lake, table: Table) -> None:
    """Bytes of lines stay as they are: people never added it."""
    commit_rows(lake, "tap.s", {"id": PROPERTIES["id"], "code": STRING}, ["id"], [{"id": 7}])
    said(table, partial(says.with_column, name="extra", schema=STRING))
    said(table, partial(says.without_column, name="extra"))
    assert ODD.encode() in run(lake).out
