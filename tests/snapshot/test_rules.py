"""A version is read by the rules that it was frozen under; the head never takes them."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.types import RULES
from singerlake.lake import Lake
from singerlake.log.commit import commit, draft_entry
from singerlake.log.schema_difference import plan as compare
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.freeze import commit_version, plan
from tests.build import commit_rows

PROPERTIES: dict[str, Any] = {"d": {"type": "string", "format": "x-singer.decimal"}}


def frozen_before(present: TableState) -> Entry:
    """What an earlier release would append, which knew one set of rules."""
    version = FrozenVersion(
        number=1,
        transaction=1,
        schema_hash=present.schema_hash,
        rows=1,
        fingerprint="0" * 32,
    )
    return draft_entry(present.table, Operation.FREEZE, version=version)


def test_rules_are_those_of_the_version_that_is_named(lake: Lake) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, [], ['{"d": "1.10"}'])
    table = lake.find("tap.s")[0]
    assert table.snapshot().rules == RULES

    after = commit(lake.store, table.snapshot(), frozen_before)
    for snapshot in (after, after.at(1), after.earliest_equal(), after.named("@1")[1]):
        assert snapshot.rules == RULES
    assert after.named("1")[1].rules == after.frozen_as(after.frozen[0]).rules == 1
    commit_rows(lake, "tap.s", PROPERTIES, [], ['{"d": "2.20"}'])
    head = table.snapshot()
    update_checkpoint(lake.store, head)
    for known in (head, lake.find("tap.s")[0].snapshot()):  # from the log, and by the manifest
        version = known.named("1")[1]
        assert (known.rules, known.at(2).rules, version.rules) == (RULES, RULES, 1)
        assert version.earliest_equal().rules == 1
        assert not known.reads_like(version)


def test_freeze_beside_an_earlier_release_keeps_its_own_rules(lake: Lake) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, [], ['{"d": "1.10"}'])
    table = lake.find("tap.s")[0]
    head = table.snapshot()
    planned = plan(head)
    commit(lake.store, head, frozen_before)
    done = commit_version(lake.store, head, planned, rows=1, fingerprint="lt1:" + "0" * 64)
    assert [version.types for version in table.snapshot().frozen] == [1, RULES]
    assert (done.number, done.transaction) == (2, 1)


def test_operations_warn_of_a_version_of_other_rules(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, [], ['{"d": "1.10"}'])
    table = lake.find("tap.s")[0]
    commit(lake.store, table.snapshot(), frozen_before)
    compare(table.snapshot(), "1").warn_of_rules()
    (warning,) = caplog.messages
    assert "version 1 of tap.s was frozen under earlier rules of types" in warning
    caplog.clear()
    compare(table.snapshot(), "@1").warn_of_rules()
    assert caplog.messages == []
