"""A changed row's record under another schema: what is spelled anew, and what keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import block_columns, table_columns
from singerlake.format.overlay import AddedColumn, ColumnOverlay, Overlay
from singerlake.format.types import type_of
from singerlake.format.written import written_under
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.blocks.defaults import ColumnDefault
from singerlake.rows.lines.members import patched
from singerlake.rows.lines.record_texts import RecordTexts
from singerlake.rows.lines.respelling import Respelling, older
from tests.build import record_line, schema_line

INTEGER, STRING = {"type": ["null", "integer"]}, {"type": ["null", "string"]}


def respelled(
    old: dict[str, Any], new: dict[str, Any], overlay: Overlay, record: str, number: int = 3
) -> str:
    """A record of a block under one schema, as it is written under another."""
    own = SchemaEntry({"type": "object", "properties": old})
    tap = SchemaEntry({"type": "object", "properties": new})
    line = record_line("s", record)
    text = schema_line("s", old, []) + line
    under = written_under(tap, overlay)
    target = (*table_columns(tap, overlay), *under.hidden)
    columns = block_columns(own, under.overlay)
    defaults = {
        name: ColumnDefault(dict(target)[name], one.defaults, one.first_block)
        for name, one in overlay.added.items()
    }
    spec = BlockSpec(
        where="block 3",
        block=Block(number, "h/f", 0, 1, 1, len(text)),
        source=columns.columns,
        target=target,
        members=columns.members,
        defaults=defaults,
    )
    texts = RecordTexts(target, under.shown, members=under.members)
    found = Respelling.of_block(text, spec, texts)
    bare = line.rstrip(b"\n")
    done = bare if found is None else patched(bare, found.members(0, bare))
    start = done.index(b'"record": ') + len(b'"record": ')
    return done[start : done.index(b', "time_extracted"')].decode()


AMOUNT = {"id": INTEGER, "n": INTEGER}


@pytest.mark.parametrize(
    ("old", "new", "overlay", "record", "expected"),
    [
        (AMOUNT, AMOUNT, Overlay(), '{"id": 1, "n":  1.0}', '{"id": 1, "n":  1.0}'),
        # Another type: the value that the column shows. Where it cannot be, the bytes stay.
        (
            AMOUNT,
            {**AMOUNT, "n": STRING},
            Overlay(),
            '{"id": 1.0, "n":  1.0}',
            '{"id": 1.0, "n":  "1"}',
        ),
        (
            {**AMOUNT, "n": STRING},
            AMOUNT,
            Overlay(),
            '{"n":  "x", "id": 1}',
            '{"n":  "x", "id": 1}',
        ),
        (
            AMOUNT,
            {**AMOUNT, "n": STRING},
            Overlay(),
            '{"id": 1, "n": null}',
            '{"id": 1, "n": null}',
        ),
        (AMOUNT, {**AMOUNT, "n": STRING}, Overlay(), '{"id": 1}', '{"id": 1}'),
        # What people call a column is no matter of the records.
        (
            AMOUNT,
            AMOUNT,
            Overlay(columns={"n": ColumnOverlay(name="m")}),
            '{"id": 1, "n":  1.0, "else": 2}',
            '{"id": 1, "n":  1.0, "else": 2}',
        ),
        (
            {"a": INTEGER, "b": STRING},
            {"a": INTEGER, "b": INTEGER},
            Overlay(columns={"a": ColumnOverlay(name="b"), "b": ColumnOverlay(name="a")}),
            '{"a": 1.0, "b": "7"}',
            '{"a": 1.0, "b": 7}',
        ),
        # But for a column that the tap calls by now what a person has called it before.
        (
            AMOUNT,
            {"id": INTEGER, "m": STRING},
            Overlay(columns={"n": ColumnOverlay(name="m")}),
            '{"id": 1, "n":  1.0, "else": 2}',
            '{"id": 1, "else": 2, "m": "1"}',
        ),
        # A column that a person added: what it showed, whatever the record had under its name.
        (
            AMOUNT,
            AMOUNT,
            Overlay(added={"vip": AddedColumn({"type": "boolean"}, [(0, True), (5, False)])}),
            '{"id": 1, "vip": "old"}',
            '{"id": 1, "vip": true}',
        ),
        # A member that no schema declared until now showed nothing, and shows nothing now.
        (
            AMOUNT,
            {**AMOUNT, "x": INTEGER, "y": {"type": "string"}, "z": INTEGER},
            Overlay(),
            '{"x": 7, "id": 1, "n": 1.0, "y": "seven"}',
            '{"x": null, "id": 1, "n": 1.0}',
        ),
        # One that a person dropped stays as it is, as one may see again that is restored.
        (
            AMOUNT,
            AMOUNT,
            Overlay(columns={"n": ColumnOverlay(dropped=True)}),
            '{"id": 1, "n": 1.0}',
            '{"id": 1, "n": 1.0}',
        ),
        (
            AMOUNT,
            {**AMOUNT, "n": STRING},
            Overlay(columns={"n": ColumnOverlay(dropped=True)}),
            '{"id": 1, "n": 1.0}',
            '{"id": 1, "n": "1"}',
        ),
    ],
)
def test_what_a_record_says_otherwise(
    old: dict[str, Any], new: dict[str, Any], overlay: Overlay, record: str, expected: str
) -> None:
    found = respelled(old, new, overlay, record)
    assert json.loads(found) == json.loads(expected)
    assert found.replace(" ", "") == expected.replace(" ", "")
    if found == record:
        assert expected == record


def test_a_column_added_again_has_nothing_of_the_one_before() -> None:
    overlay = Overlay(added={"vip": AddedColumn({"type": "boolean"}, [(0, True), (5, False)])})
    both = {**AMOUNT, "vip": {"type": "boolean"}}
    for number, said in ((4, "true"), (5, "false")):
        record = respelled(both, AMOUNT, overlay, '{"id": 1, "vip": false}', number=number)
        assert record == f'{{"id": 1, "vip": {said}}}'


@pytest.mark.parametrize(
    ("number", "first", "expected"), [(4, 0, True), (5, 0, False), (9, 3, True)]
)
def test_a_block_put_together_may_have_rows_from_before_a_column(
    number: int, first: int, expected: bool
) -> None:
    vip = AddedColumn({"type": "boolean"}, [(0, True), (5, False)])
    defaults = {"vip": ColumnDefault(type_of(vip.schema), vip.defaults, vip.first_block)}
    block = Block(number, "h/f", 0, 1, 1, 1, first_version=first)
    assert older(block, defaults) is expected
