"""What runs a diff: chosen by size, before the lease and again under it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import singerlake
from singerlake.engine import choice as engines
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.log.lease import leases
from singerlake.log.schema_difference import plan
from singerlake.ops.diff.table import DiffOptions, diff
from tests.build import commit_rows

ID: dict[str, Any] = {"id": {"type": "integer"}}


@pytest.fixture
def table(lake: Lake) -> Table:
    for number in range(2):
        commit_rows(lake, "tap.s", ID, ["id"], [{"id": number}, {"id": 9}])
    return lake.find("tap.s")[0]


def work(table: Table) -> Work:
    blocks = table.snapshot().blocks
    return Work.of(blocks, 1)


def test_blocks_of_both_states_count(table: Table, no_java: EngineChoice) -> None:
    size = work(table)
    options = DiffOptions("@2", "@1")
    with diff(table, options, replace(no_java, limit=size)) as found:
        assert found.counts().removed == 1
    with pytest.raises(UsageError, match="Java starts"):
        diff(table, options, replace(no_java, limit=replace(size, bytes=size.bytes - 1)))
    assert not [*leases(table.store, table.name)]


def test_a_table_that_grew_changes_its_engine(
    lake: Lake, table: Table, no_java: EngineChoice
) -> None:
    choice = replace(no_java, limit=work(table))
    options = DiffOptions("@1")
    wanted = plan(table.snapshot(), "@1")
    with diff(table, options, choice, wanted=wanted) as found:
        assert found.compared.after.number == 2
    commit_rows(lake, "tap.s", ID, ["id"], [{"id": 3}])
    with pytest.raises(UsageError, match="Java starts"):
        diff(table, options, choice, wanted=wanted)
    assert not [*leases(table.store, table.name)]


def test_what_is_refused_starts_no_java(table: Table, no_java: EngineChoice) -> None:
    spark = replace(no_java, name="spark")
    with pytest.raises(NotFoundError, match="no transaction 7"):
        diff(table, DiffOptions("@7"), spark)
    with pytest.raises(UsageError, match="is none of fail, null, text"):
        diff(table, DiffOptions("@1", on_type_mismatch="maybe"), spark)


def test_a_program_chooses_too(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> Any:
        raise UsageError("Java starts")

    monkeypatch.setattr(EngineChoice, "spark_engine", started)
    uri = table.store.uri
    own = singerlake.Lake.open(uri).table("tap.s")
    with own.diff("@1", "@2") as found:
        assert [*found.flat_rows().rows()] == [("added", 1, None)]
    for how in ({"engine": "spark"}, {"spark": SimpleNamespace()}):
        with pytest.raises(UsageError, match="Java starts"):
            own.diff("@1", **how)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs no session"):
        own.diff("@1", engine="local", spark=SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setattr(engines, "SMALL", Work())
    with pytest.raises(UsageError, match="Java starts"):
        own.diff("@1")
    with singerlake.open(uri, engine="local").table("tap.s").diff("@1") as found:
        assert found.counts().unchanged == 2
