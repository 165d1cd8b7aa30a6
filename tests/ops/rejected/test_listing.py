"""Rejected records listed, selected, exported and discarded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake import api
from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.rejected import listing
from singerlake.ops.rejected.kept import hidden
from singerlake.ops.rejected.listing import DiscardOptions, Selection, discard
from singerlake.ops.rejected.reasons import without_values
from tests.ops.rejected.shop import EITHER, NAME, NUMBER, row, sync, table_of, totals
from tests.target.harness import TAP, run


@pytest.fixture
def shop(lake: Lake) -> Lake:
    sync(lake, row(1, "one"), row(2, "two"), row("x", 3), b'{"type":"RECORD","stream":"a","rec')
    return lake


def test_counts_are_by_reason_without_values(shop: Lake) -> None:
    counts = table_of(shop).rejected().counts()
    unchecked = "; the setting validate_records: false accepts records unchecked"
    first = "the record of stream 'a', field 'total': … is not of type \"number\""
    assert (counts[0].reason, counts[0].lines) == (first + unchecked, 2)
    assert sum(one.lines for one in counts) == 4
    assert counts[0].first <= counts[0].last
    assert not any("one" in one.reason.split(";")[0] for one in counts)


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("field 'a': ", '"it is; not"', ' is not of type "null"'),
        ("field 'a': ", '{"b": 1}', ' is not of type "null"'),
        ("field 'a': ", "'x is y'", " does not match pattern '^a'"),
        ("field 'a': ", '"xx … xx"', " is too long"),
        ("field 'a': ", '"xx … long text is not one of [1]', ""),
        ("field 'a': ", '"x" is new to us', ""),
        ("field 'a': ", '"x"', " is not one of [1]"),
        ("the record of stream 's', ", '{"a": 1}', " has less than 3 properties"),
        ("the record of stream 's': the value ", "12", " of column 'n' is not a valid date"),
        ("is not JSON: JSON is malformed: trailing characters (byte 5): ", "secret", ""),
        ("is not JSON: ", "something new: secret", ""),
        ("the record of stream 's', \"id\" is a required property", "", ""),
        ("is not UTF-8 text: invalid byte", "", ""),
        ("field 'a' is missing, and the schema requires it", "", ""),
    ],
)
def test_values_are_hidden_in_reasons(before: str, value: str, after: str) -> None:
    reason = before + value + after
    assert without_values(reason, b'{"a": 1}') == (f"{before}…{after}" if value else reason)


@pytest.mark.parametrize(
    ("place", "shown"),
    [("a", "'a'"), ("a.x.y", "'a.…'"), ("a: b", "'a: b'"), ("a.b.x", "'a.b.…'"), ("ada", "…")],
)
def test_names_within_columns_are_hidden_in_reasons(place: str, shown: str) -> None:
    line = b'{"record": {"a": 1, "a: b": 1, "a.b": {}}}'
    said = without_values(f'field {place!r}: 1 is not of type "null"', line)
    assert said == f'field {shown}: … is not of type "null"'


def test_records_are_shown_without_values() -> None:
    line = row(1, "secret", time_extracted="2026-01-01T00:00:00Z")
    assert hidden(line) == '{"id": integer, "total": string}'
    assert hidden(b'{"a": null, "b": [1], "c": {}, "d": 1.5, "e": true}') == (
        '{"a": null, "b": array, "c": object, "d": number, "e": boolean}'
    )
    assert hidden(b"[1]") == "array"
    assert hidden(b"{secret") == "7 bytes that are not JSON"


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        (None, 4),
        ("*", 4),
        ("is not of type", 3),
        ("*'total': … is not of type*", 2),
        ("the record of stream 'a', field 'total': \"?ne\" *", 1),
        ("'total': … is not of type [number]", 0),
        ("nothing of the kind", 0),
    ],
)
def test_records_are_selected_by_reason(shop: Lake, reason: str | None, lines: int) -> None:
    assert len([*table_of(shop).rejected(reason)]) == lines


@pytest.mark.usefixtures("many_cases")
def test_records_are_selected_by_sql(shop: Lake) -> None:
    lines = [*api.Lake(shop.store)[NAME].rejected(where="line between 2 and 3 or line > 99")]
    assert [line.line for line in lines] == [2, 3]
    done = table_of(shop).rejected("total", where="line = 3").discard(dry_run=True)
    assert done == 1


def test_reason_as_listed_selects_its_records(shop: Lake) -> None:
    for one in table_of(shop).rejected().counts():
        assert len([*table_of(shop).rejected(one.reason)]) == one.lines


def test_export_gives_lines_that_the_target_takes(shop: Lake, tmp_path: Path) -> None:
    first, *lines = table_of(shop).rejected("*'total'*").messages()
    assert json.loads(first)["type"] == "SCHEMA"
    assert lines == [row(1, "one") + b"\n", row(2, "two") + b"\n"]
    sync(shop, schema=EITHER)
    exported = b"".join(table_of(shop).rejected("*'total'*").messages())
    assert run(shop.store.uri, exported) == []
    assert totals(shop) == {1: "one", 2: "two"}


def test_lines_of_no_stream_are_exported_and_not_replayed(lake: Lake) -> None:
    sync(lake, b"stray print", row(1, 1))
    of_no_stream = listing.rejected_lines(Table(lake.store, _no_stream()))
    assert [line.text for line in of_no_stream] == [b"stray print"]
    table = api.Table(lake.store, _no_stream())
    assert [*table.rejected().messages()] == [b"stray print\n"]
    with pytest.raises(UsageError, match="belong to no table"):
        table.rejected().replay()


def _no_stream() -> listing.TableName:
    return listing.TableName(TAP, "")


def test_discarded_records_are_off_the_list_and_in_its_history(shop: Lake) -> None:
    table = table_of(shop)
    assert table.rejected("*'total'*").discard(dry_run=True) == 2
    assert len([*table.rejected()]) == 4
    assert table.rejected("*'total'*").discard(comment="test data") == 2
    assert len([*table.rejected()]) == 2
    rejected = api.Lake(shop.store)[f"{NAME}__rejected"]
    assert len(rejected.at(transaction=1, engine="local").to_arrow()) == 4
    entry = [*rejected.entries()][-1]
    assert entry.metadata["comment"] == "test data"
    assert entry.metadata["discarded"] is True
    assert entry.metrics == {"removed": 2, "kept": 0}
    assert table.rejected("*'total'*").discard() == 0
    assert rejected.snapshot().number == 2
    sync(shop, row(1, "one"))
    assert kept_totals_of(shop) == ["one"], "a record that is rejected again is listed again"


def kept_totals_of(lake: Lake) -> list[object]:
    lines = table_of(lake).rejected("*'total'*")
    return [json.loads(line.text)["record"]["total"] for line in lines]


def test_discard_needs_a_selection(shop: Lake) -> None:
    with pytest.raises(UsageError, match="--reason '\\*' selects all"):
        table_of(shop).rejected().discard()


def test_discard_beside_a_sync_that_rejects_more(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.ops.rejected import settle

    left = [1]
    own = settle.commit

    def commit(*args: object, **more: object) -> object:
        if left:
            left.pop()
            sync(shop, row(3, "three"))
        return own(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(settle, "commit", commit)
    monkeypatch.setattr(settle, "hold_locks", _Nobody)
    assert table_of(shop).rejected("*'total'*").discard() == 3


class _Nobody:
    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> _Nobody:
        return self

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None: ...


def test_discard_gives_up_beside_syncs_that_never_end(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.ops.rejected import settle

    monkeypatch.setattr(settle.conflicts, "rows_changed_since", lambda *_: True)
    options = DiscardOptions(Selection("*"))
    with pytest.raises(ConflictError, match="left unchanged; run it again"):
        discard(table_of(shop), options)


def test_table_without_rejected_records(lake: Lake) -> None:
    sync(lake, row(1, 1), schema=NUMBER)
    with pytest.raises(NotFoundError, match=r"no records of tap-test\.a were rejected"):
        table_of(lake).rejected().counts()
    with pytest.raises(NotFoundError, match=r"no records of tap-test\.a were rejected"):
        table_of(lake).rejected("x").discard()
    assert listing.dead_letter_tables(lake) == []
