"""Which earlier states can still be read, also asked of the table as of an earlier transaction."""

from __future__ import annotations

from dataclasses import replace

from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.ops.delete_version import delete_version
from tests.build import commit_rows
from tests.frozen import freeze_here

ID = {"id": {"type": "integer"}}


def with_a_version_deleted_before_the_floor(lake: Lake) -> TableState:
    """Versions 1 and 2, of transactions 1 and 3; 1 was deleted, and history before 5 expired."""
    for number in range(2):
        commit_rows(lake, "tap.s", ID, ["id"], [{"id": number}])
        freeze_here(lake.table("tap.s"))
    table = lake.table("tap.s")
    delete_version(table.store, table.snapshot(), "1", "asked")
    commit_rows(lake, "tap.s", ID, ["id"], [{"id": 7}])
    head = table.snapshot()
    assert [version.number for version in head.frozen] == [2]
    return replace(head, floor=head.number)


def test_a_version_deleted_before_the_floor_protects_nothing(lake: Lake) -> None:
    head = with_a_version_deleted_before_the_floor(lake)
    assert not head.readable(1)
    assert head.readable(3), "version 2 is of it"


def test_so_it_is_as_of_an_earlier_transaction(lake: Lake) -> None:
    """Where the deletion is later than that, and the floor too."""
    head = with_a_version_deleted_before_the_floor(lake)
    earlier = head.at(3)
    assert not earlier.readable(1)
    assert not earlier.by_rules(2).readable(1)
    assert not head.at(3).earliest_equal().readable(1)
