"""A relative lake lies in the Meltano project's root; one on the command line where it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.lake import Lake
from singerlake.plugins import settings
from singerlake.storage.opening import in_project
from singerlake_cli.main import cli
from tests.build import commit_rows


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder, table in ((tmp_path, "t.root"), (tmp_path / "sub", "t.sub")):
        lake = Lake.open(str(folder / "lake"), create=True)
        commit_rows(lake, table, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv("MELTANO_PROJECT_ROOT", str(tmp_path))
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "lake", "table"),
    [
        ([], None, "t.root"),
        ([], "lake", "t.root"),
        ([], "./lake", "t.root"),
        (["--lake", "lake"], None, "t.sub"),
        (["--lake", "./lake"], "elsewhere", "t.sub"),
    ],
)
def test_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], lake: str | None, table: str
) -> None:
    if lake is not None:
        monkeypatch.setenv("SINGERLAKE_LAKE", lake)
    result = CliRunner().invoke(cli, [*args, "ls"])
    assert result.exit_code == 0, result.output
    assert table in result.stdout


def test_the_plugins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.lake_uri({}) == str(project / "lake")
    assert settings.lake_uri({"lake": "x"}) == str(project / "x")
    assert settings.lake_uri({"lake": "s3://b/p"}) == "s3://b/p"
    assert settings.lake_uri({"lake": "/x"}) == "/x"
    assert in_project("~/x") == "~/x"
    assert in_project("") == ""
    monkeypatch.delenv("MELTANO_PROJECT_ROOT")
    assert settings.lake_uri({}) == "./lake"
