"""Copies of tables that rows were erased from: never from before the erasure, nor amid it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.errors import ConflictError
from singerlake.format.erased_keys import KeyHashes
from singerlake.lake import Lake, Table
from singerlake.log import blocked
from singerlake.log.log import read_whole
from singerlake.log.table_state import TableState
from singerlake.ops import suppression as blocking
from singerlake.ops.copy.lake_versions import copy_lake_versions
from singerlake.ops.copy.logs import WholeLog
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.resealing import reseal
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.ops.verify.lake import check_lake_log
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.ops.copy.world import copy, copy_lake_version, problems
from tests.ops.erase import by_hand
from tests.ops.erase.test_resealing import ADA, NAME, filled, freeze_all, told


@pytest.fixture
def table(lake: Lake) -> Table:
    return filled(lake)


@pytest.fixture
def place(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "copy")


def erased(table: Table) -> None:
    reseal(table.store, by_hand.erase(table, ADA))


def test_a_copy_made_after_it(table: Table, place: LocalStore) -> None:
    erased(table)
    copy(table.store, place)
    there = Table(place, NAME)
    assert told(there) == told(table)
    assert not check_log(place, NAME).problems
    assert problems(place, str(NAME)) == []
    by_hand.write(Lake(table.store), table, {"id": 8, "name": "Flo"})
    copy(table.store, place)
    assert there.snapshot().chain == table.snapshot().chain
    assert read_whole(place, NAME, there.snapshot().number).erased_at


def test_a_copy_from_before_goes_on_no_more(table: Table, place: LocalStore) -> None:
    copy(table.store, place)
    before = Table(place, NAME).snapshot()
    erased(table)
    with pytest.raises(
        ConflictError, match=r"erased at the source .* may still have them: delete raw/"
    ):
        copy(table.store, place)
    assert Table(place, NAME).snapshot() == before
    for item in [*place.list(NAME.folder)]:
        place.delete(item.key)
    copy(table.store, place)
    assert Table(place, NAME).snapshot().chain == table.snapshot().chain


def test_none_is_made_amid_one(table: Table, place: LocalStore) -> None:
    head = by_hand.start(table, ADA)
    copy(table.store, place)
    by_hand.commit_erase(table, head, ADA)
    with pytest.raises(ConflictError, match="may still have them"):
        copy(table.store, place)
    with pytest.raises(ConflictError, match="is not finished at the source"):
        copy(table.store, LocalStore(Path(f"{place.uri}-2")))


def test_entries_that_are_rewritten_meanwhile(table: Table) -> None:
    """The copy has read the head of before the erasure, and the entries of after it."""
    before = table.snapshot()
    erased(table)
    with pytest.raises(ConflictError, match="were erased while it was copied"):
        WholeLog(table.store, NAME, TableState(NAME), before.number)


@pytest.mark.parametrize("version", ["1", "2"])
def test_copies_of_versions(table: Table, place: LocalStore, version: str) -> None:
    old = LocalStore(Path(f"{place.uri}-old"))
    copy(table.store, old, f"{NAME}.{version}")
    erased(table)
    with pytest.raises(ConflictError, match="may still have them"):
        copy(table.store, old, f"{NAME}.{version}")
    copy(table.store, place, f"{NAME}.{version}")
    copy(table.store, place, f"{NAME}.{version}")
    there = Table(place, NAME)
    ours, theirs = table.snapshot().version(version), there.snapshot().version(version)
    assert (ours.fingerprint, ours.rows) == (theirs.fingerprint, theirs.rows)
    assert not check_log(place, NAME).problems
    entries = [json.loads(data) for data in by_hand.log_of(there).values()]
    assert not any(entry.get("rewritten") or entry.get("stands_for") for entry in entries)


def test_lake_versions_go_along(lake: Lake, table: Table, place: LocalStore) -> None:
    def copied(destination: LocalStore) -> list[int]:
        copy(table.store, destination)
        some = copy_lake_versions(table.store, destination, lake.lake_versions(), [])
        assert Lake(destination).lake_versions() == lake.lake_versions()
        return [one.version.number for one in some]

    assert copied(place) == [1]
    erased(table)
    with pytest.raises(ConflictError, match="earlier fingerprints: delete versions/"):
        copy_lake_versions(table.store, place, lake.lake_versions(), [])
    fresh = LocalStore(Path(f"{place.uri}-2"))
    assert copied(fresh) == [1]
    by_hand.freeze(table)
    freeze_all(lake, table)
    assert copied(fresh) == [2]


def test_a_lake_version_alone(lake: Lake, table: Table, place: LocalStore) -> None:
    by_hand.freeze(table)
    freeze_all(lake, table)
    copy_lake_version(table.store, place, "1")
    for number in range(20, 26):
        by_hand.write(lake, table, {"id": number, "name": "Ed"})
    erased(table)
    with pytest.raises(ConflictError, match="earlier fingerprints: delete versions/"):
        copy_lake_version(table.store, place, "2")
    fresh = LocalStore(Path(f"{place.uri}-2"))
    copy_lake_version(table.store, fresh, "2")
    assert Lake(fresh).lake_versions() == lake.lake_versions()
    assert check_lake_log(fresh).problems == []
    assert not check_log(fresh, NAME).problems
    there = Lake(fresh).table(NAME)
    assert there.snapshot().number < table.snapshot().erased_at, "a log that was made anew"
    reseal(fresh, by_hand.erase(there, 2))  # by a number that is smaller than the source's
    assert check_lake_log(fresh).problems == []
    version = Lake(fresh).lake_version(1)
    assert version.rewritten != lake.lake_version(1).rewritten
    assert [one.transaction for one in version.rewritten] == [there.snapshot().erased_at - 1]


def test_keys_that_are_blocked_no_more(lake: Lake, table: Table, place: LocalStore) -> None:
    """The log up to the freeze names a list of keys that is gone."""
    head = table.snapshot()
    rows = blocking.rows_of(head, KeyHashes.new())
    hashes = rows.added(blocking.cells_of(head, ["2", "3"]))
    said = blocked.write(lake.store, NAME, hashes, ["id"])
    blocked.commit_blocked(lake.store, head, said, "w")
    by_hand.freeze(table)
    number = table.snapshot().last_version
    copy(table.store, place, f"{NAME}.{number}")
    assert Table(place, NAME).snapshot().chain == table.snapshot().chain
    assert Table(place, NAME).snapshot().blocked == said
    blocking.unblock(lake.store, table.snapshot(), ["2"], VacuumOptions())
    fresh = LocalStore(Path(f"{place.uri}-2"))
    copy(table.store, fresh, f"{NAME}.{number}")
    assert problems(fresh, str(NAME)) == []
    assert Table(fresh, NAME).snapshot().version(str(number)) == table.snapshot().frozen[-1]


def test_one_that_was_dropped_comes_back_in_the_copy(table: Table, place: LocalStore) -> None:
    """The erasure was of a dropped table; the copy has what would come back, and no more."""
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)
    reseal(table.store, by_hand.erase(table, ADA))
    copy(table.store, place)
    assert not check_log(place, NAME).problems
    there = Table(place, NAME)
    for one in (table, there):
        undrop_table(one.store, one.snapshot(dropped=True), AlterOptions())
    assert told(there) == told(table)
    assert problems(place, str(NAME)) == []
    head = there.snapshot()
    assert ADA not in [row["id"] for row in by_hand.rows_at(there, head, head.number)]
