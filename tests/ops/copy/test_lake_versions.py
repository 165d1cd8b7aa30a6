"""Lake versions go with the whole lake, after the tables that they name, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.ops.verify import lake as verify_lake
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.cli.call import run
from tests.ops.freeze.test_freeze_lake import ID, A, freeze, freeze_all


@pytest.fixture
def backup(tmp_path: Path) -> Lake:
    return Lake(LocalStore(tmp_path / "backup"))


@pytest.fixture
def source(lake: Lake) -> Lake:
    """Two tables, and a lake version of them."""
    for name in ("tap.a", "tap.b"):
        commit_rows(lake, name, ID, ["id"], [{"id": 1}])
        freeze(lake, lake.find(name)[0].name)
    freeze_all(lake, "q3")
    return lake


def copied(source: Lake, backup: Lake, *more: str, code: int = 0) -> str:
    result = run(source, "copy", source.store.uri, backup.store.uri, *more)
    assert result.exit_code == code, result.output
    return str(result.stdout + result.stderr)


def test_they_go_with_the_lake(source: Lake, backup: Lake) -> None:
    assert "lake version 1 (q3): would be copied" in copied(source, backup, "--dry-run")
    assert not Path(backup.store.uri).exists()
    assert "lake version 1 (q3): copied" in copied(source, backup)
    assert backup.lake_versions() == source.lake_versions()
    key = "versions/000000000001.json"
    assert backup.store.get(key).data == source.store.get(key).data
    assert verify_lake.check_lake_log(backup.store).problems == []
    assert "lake version" not in copied(source, backup)
    freeze_all(source)
    assert "lake version 2: copied" in copied(source, backup)
    assert backup.lake_versions() == source.lake_versions()


def test_some_tables_go_without(source: Lake, backup: Lake) -> None:
    said = copied(source, backup, "tap.a", "tap.b.1")
    assert "copied with the whole lake, or with --lake-version, and not with tables" in said
    assert backup.lake_versions() == []


def test_it_waits_for_a_table_that_could_not_be_copied(source: Lake, backup: Lake) -> None:
    freeze_all(source)
    (block,) = source.table(A).snapshot().blocks
    path = Path(source.store.uri, A.data(block.file))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"!")
    copied(source, backup, code=5)
    assert backup.lake_versions() == []
    path.write_bytes(data)
    locks = [*Path(backup.store.uri).rglob("singerlake.lock")]
    assert locks, "files that no log names yet lie beside one"
    copied(source, backup)
    assert backup.lake_versions() == source.lake_versions()


def test_a_copy_with_lake_versions_of_its_own_is_left_alone(source: Lake, backup: Lake) -> None:
    copied(source, backup)
    own = freeze_all(backup, "own")
    said = copied(source, backup, code=4)
    assert "has another versions/000000000002.json than the source" in said
    freeze_all(source)
    copied(source, backup, code=4)
    assert backup.lake_versions()[1] == own


def test_a_lake_log_that_is_damaged_keeps_no_table_from_being_copied(
    source: Lake, backup: Lake
) -> None:
    Path(source.store.uri, "versions/000000000001.json").write_bytes(b"{}")
    assert "versions/000000000001.json" in copied(source, backup, code=5)
    assert len(backup.tables()) == 2
    assert backup.lake_versions() == []
