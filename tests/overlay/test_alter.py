"""What a person says of a column lies over what the tap says, and survives what may be lost."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format.types import columns_of
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import AlterOptions, alter, looks_at_rows, plan
from singerlake.overlay.overlay_changes import with_type
from tests.build import commit_rows, retype

PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "amount": {"type": "number"},
    "note": {},
}


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 1, "amount": 1.5}])
    return lake.find("tap.s")[0]


def types(snapshot: TableState) -> dict[str, str]:
    found = columns_of(snapshot.schema, snapshot.rules, snapshot.retyped)
    return {name: str(type_) for name, type_ in found}


def test_a_column_is_text_from_then_on_under_every_schema(lake: Lake, table: Table) -> None:
    done = retype(table.store, table.snapshot(), "amount", comment="n/a comes")
    assert (done.before, done.after, done.transaction) == ("double", "text", 2)
    head = table.snapshot()
    assert types(head)["amount"] == "text"
    assert types(head.at(1))["amount"] == "double"
    entry = json.loads((Path(lake.store.uri) / table.name.transaction(2)).read_text())
    assert entry["overlay"] == {"columns": {"amount": {"type": "text"}}}
    assert (entry["operation"], entry["metadata"]["comment"]) == ("alter", "n/a comes")
    assert head.schema.schema["properties"] == PROPERTIES, "the tap's schema stays the tap's"
    later = {**PROPERTIES, "amount": {"type": "integer"}, "more": {"type": "boolean"}}
    commit_rows(lake, "tap.s", later, ["id"], [{"id": 2, "amount": 7}])
    assert types(table.snapshot()) == {
        "id": "int64", "amount": "text", "note": "text", "more": "boolean"
    }  # fmt: skip
    retype(table.store, table.snapshot(), "more")
    assert table.snapshot().retyped == {"amount", "more"}
    assert table.snapshot().at(3).retyped == {"amount"}


def test_nothing_is_committed_where_nothing_changes(table: Table) -> None:
    planned = retype(table.store, table.snapshot(), "amount", dry_run=True)
    assert (planned.transaction, planned.same) == (None, False)
    assert retype(table.store, table.snapshot(), "note").same
    assert table.snapshot().number == 1
    retype(table.store, table.snapshot(), "amount")
    assert retype(table.store, table.snapshot(), "amount").transaction is None
    assert table.snapshot().number == 2


def test_what_cannot_be_retyped(table: Table) -> None:
    with pytest.raises(NotFoundError, match="did you mean amount"):
        retype(table.store, table.snapshot(), "amuont")
    with pytest.raises(NotFoundError, match="it has id, amount, note"):
        retype(table.store, table.snapshot(), "zzz")
    assert table.snapshot().number == 1


def test_a_key_is_retyped_only_where_it_had_one_type(lake: Lake, table: Table) -> None:
    wide = {**PROPERTIES, "id": {"type": "integer", "maximum": 2**64}}
    commit_rows(lake, "tap.s", wide, ["id"], [{"id": 2}])
    assert retype(table.store, table.snapshot(), "id", dry_run=True).before == "decimal(38,0)"
    commit_rows(lake, "tap.s", {**PROPERTIES, "id": {"type": "string"}}, ["id"], [{"id": "1.0"}])
    with pytest.raises(UsageError, match=r"of the key of tap.s.*\(int64 or decimal, string\)"):
        retype(table.store, table.snapshot(), "id")
    assert not table.snapshot().retyped


def test_two_at_once_keep_what_both_said(lake: Lake, table: Table) -> None:
    commit_rows(lake, "tap.s", {**PROPERTIES, "b": {"type": "boolean"}}, ["id"], [{"id": 2}])
    before = table.snapshot()
    retype(table.store, before, "amount")
    retype(table.store, before, "b")
    assert table.snapshot().retyped == {"amount", "b"}


def test_what_no_row_needed_a_look_for_is_asked_again(lake: Lake, table: Table) -> None:
    commit_rows(lake, "tap.s", {**PROPERTIES, "n": {"type": "integer"}}, ["id"], [{"id": 2}])
    before = table.snapshot()
    wider = partial(with_type, name="n", schema={"type": ["null", "number"]})
    assert not looks_at_rows(plan(before, wider, AlterOptions()))
    text = {**PROPERTIES, "n": {"type": "string"}}
    commit_rows(lake, "tap.s", text, ["id"], [{"id": 3, "n": "n/a"}])
    with pytest.raises(ConflictError, match="its rows have to"):
        alter(table.store, before, wider)
    assert not table.snapshot().overlay.columns


@pytest.mark.parametrize("lost", ["manifest.json", "transactions", "entry"])
def test_it_survives_what_is_lost_and_rebuilt(lake: Lake, table: Table, lost: str) -> None:
    retype(table.store, table.snapshot(), "amount")
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 2, "amount": 7}])
    folder = Path(lake.store.uri) / table.name.folder
    if lost == "manifest.json":
        (folder / lost).unlink()
    elif lost == "transactions":
        shutil.rmtree(folder / lost)
    else:
        (folder / "transactions" / "000000000002.json").unlink()
    if lost == "manifest.json":
        assert Lake.open(lake.store.uri).find("tap.s")[0].snapshot().retyped == {"amount"}
    rebuild_table(table.store, table.name)
    (folder / "manifest.json").unlink()  # the log alone must say it again
    found = Lake.open(lake.store.uri).find("tap.s")[0].snapshot()
    assert (found.retyped, found.at(1).retyped) == ({"amount"}, frozenset())


def test_verify_holds_the_manifest_against_it(table: Table) -> None:
    retype(table.store, table.snapshot(), "amount")
    assert not check_log(table.store, table.name).problems
