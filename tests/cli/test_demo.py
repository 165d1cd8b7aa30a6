"""The sample that comes with the package: ``singerlake demo --messages``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake_cli.main import cli


@pytest.mark.parametrize(("args", "records"), [([], 1100), (["monday"], 1100), (["tuesday"], 88)])
def test_it_prints_messages_and_nothing_else(
    args: list[str], records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["demo", "--messages", *args])
    assert (done.exit_code, done.stderr) == (0, "")
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds.count("RECORD") == records
    assert kinds.count("SCHEMA") == 2
    assert (kinds[0], kinds[-1]) == ("SCHEMA", "STATE")
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(cli, ["demo", "--messages", *args]).stdout == done.stdout


def test_another_day_is_refused() -> None:
    done = CliRunner().invoke(cli, ["demo", "--messages", "friday"])
    assert done.exit_code == 2
    assert "'monday', 'tuesday'" in done.output
