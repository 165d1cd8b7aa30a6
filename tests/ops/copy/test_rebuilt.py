"""Entries that a rebuild wrote have the chain ids of those that were lost, and are told apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.lake import Lake
from singerlake.ops.rebuild import rebuild_table
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows, resealed
from tests.cli.call import run, run_json
from tests.ops.copy.world import AGAIN, ID, NAME, QUICK, combine, copy, log_of, rows, write
from tests.ops.vacuum.plain_table import freeze

VERIFY = replace(QUICK, verify=True)


@pytest.fixture
def source(tmp_path: Path) -> Lake:
    made = Lake(LocalStore(tmp_path / "source"))
    for number in (1, 2, 3):
        commit_rows(made, NAME, ID, ["id"], [{"id": number}], metadata={"run_id": "nightly"})
    freeze(made.find(NAME)[0], at=2)
    return made


@pytest.fixture
def backup(source: Lake, tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "backup")
    copy(source.store, made)
    return made


def lose(lake: Lake, *numbers: int) -> None:
    """Lose log entries, and have them rebuilt from the manifest."""
    table = lake.find(NAME)[0].name
    for number in numbers:
        Path(lake.store.uri, table.transaction(number)).unlink()
    assert rebuild_table(lake.store, table).restored == len(numbers)


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 2, 3), (1, 4), (1, 2, 3, 4)])
def test_what_was_rebuilt_in_the_copy_is_told(
    source: Lake, backup: LocalStore, lost: tuple[int, ...]
) -> None:
    [before] = copy(source.store, backup, options=VERIFY)
    assert before.rebuilt.at_destination == before.rebuilt.at_source == ()
    lose(Lake(backup), *lost)
    [done] = copy(source.store, backup, options=VERIFY)
    assert (done.rebuilt.at_destination, done.rebuilt.at_source) == (lost, ())
    combine(source)
    write(source, 4)
    [done] = copy(source.store, backup, options=VERIFY)
    assert done.rebuilt.at_destination == lost and rows(backup) == [1, 2, 3, 4]
    assert copy(source.store, backup)[0].rebuilt.at_destination == ()  # nobody looked


def test_what_was_rebuilt_at_the_source_is_told(source: Lake, backup: LocalStore) -> None:
    lose(source, 1, 2)
    lose(Lake(backup), 4)
    said = run(source, "copy", source.store.uri, backup.uri, "--verify")
    assert said.exit_code == 0
    assert "transaction 4: written by a rebuild here; the source has the originals" in said.stdout
    assert "transactions 1 to 2: written by a rebuild at the source; the originals" in said.stdout
    [found] = run_json(source, "copy", source.store.uri, backup.uri, "--verify")
    assert (found["rebuilt_transactions"], found["rebuilt_at_source"]) == ([4], [1, 2])


def test_a_first_copy_that_died_and_was_rebuilt(source: Lake, tmp_path: Path) -> None:
    """All of the log is there but its first entry, which the source has yet."""
    backup = LocalStore(tmp_path / "first")
    table = source.find(NAME)[0].name
    copy(source.store, backup)
    Path(backup.uri, table.transaction(1)).unlink()
    assert rebuild_table(backup, table).restored == 1
    [done] = copy(source.store, backup, options=replace(AGAIN, verify=True))
    assert done.rebuilt.at_destination == (1,)
    assert log_of(backup) != log_of(source.store)


def test_a_rebuilt_entry_that_says_something_else_is_damage(
    source: Lake, backup: LocalStore
) -> None:
    lose(Lake(backup), 1)
    table = source.find(NAME)[0].name
    path = Path(backup.uri, table.transaction(1))
    entry: dict[str, Any] = json.loads(path.read_bytes())
    entry["blocks"][0]["rows"] += 1
    path.write_bytes(resealed(entry))
    with pytest.raises(DamagedError, match="lead to different blocks .* than at the source"):
        copy(source.store, backup, options=VERIFY)
