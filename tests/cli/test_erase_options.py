"""What `singerlake erase` refuses to be asked for, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli import call

ID = {"id": {"type": "integer"}}
WHY = ("--reason", "request 12")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--notify-downstream", "7d", "--no-notify"), "exclude each other"),
        (("--notify-downstream", "400d"), "up to a year"),
        (("--notify-downstream", "7"), "is not a valid duration"),
    ],
)
def test_how_readers_are_told(lake: Lake, asked: tuple[str, ...], words: str) -> None:
    commit_rows(lake, "tap.t", ID, ["id"], [{"id": 1}])
    done = call.run(lake, "erase", "tap.t", "--key", "1", *WHY, *asked)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_table_without_a_key_has_nothing_to_tell_by(lake: Lake) -> None:
    commit_rows(lake, "tap.t", ID, [], [{"id": 1}])
    done = call.run(lake, "erase", "tap.t", "--key", "1:0", *WHY, "--notify-downstream", "7d")
    assert done.exit_code == 2
    assert "has no key" in done.stderr


def test_a_check_tells_nobody(lake: Lake) -> None:
    commit_rows(lake, "tap.t", ID, ["id"], [{"id": 1}])
    done = call.run(lake, "erase", "--search", "tap.t", "--key", "1", "--no-notify")
    assert done.exit_code == 2
    assert "leave the others out" in done.stderr


@pytest.mark.parametrize("way", [WHY, ("--unblock",)])
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("_row_id\n=x\n", "column names"),
        ('"_row_id",_transaction\n1,2\n', "column names"),
        ("a\n'=x\n", "id 2"),
        ("''-x\n", "--safe-cells"),
    ],
)
def test_erase_refuses_a_file_of_cells_instead_of_ids(
    lake: Lake, tmp_path: Path, lines: str, words: str, way: tuple[str, ...]
) -> None:
    """`delete --from` reads such a file; here an id that is read wrongly is found nowhere."""
    commit_rows(lake, "tap.t", {"id": {"type": "string"}}, ["id"], [{"id": "=x"}])
    file = tmp_path / "ids.csv"
    file.write_text(lines)
    done = call.run(lake, "erase", "tap.t", "--from", str(file), *way)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "=x" not in done.stderr
