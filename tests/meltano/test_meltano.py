"""The repository's Meltano project, run by the real Meltano."""

from __future__ import annotations

import json
import shlex
import sysconfig
from pathlib import Path

import jsonschema
import pytest
import yaml

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.meltano import definitions, project
from tests.meltano.project import ORDERS, rows
from tests.test_wheel import wheel

__all__ = ["wheel"]

pytestmark = pytest.mark.usefixtures("environments")


@pytest.fixture(scope="module")
def meltano(environments: None) -> Path:
    return project.installed()


def test_the_readmes_commands_and_state_kept_between_runs(tmp_path: Path, meltano: Path) -> None:
    here = project.copied(tmp_path, meltano)
    for command in project.page_commands():
        said = here.run(*shlex.split(command)[1:])
        if command == "meltano run shop-to-lake":
            assert rows(tmp_path) == [("sync", 100), ("freeze", 0)]
        if command == "meltano invoke singerlake versions tap-shop.orders":
            assert "tap-shop.orders" in said
            assert "100" in said
    synced = [("sync", 100), ("freeze", 0), ("sync", 41)]
    assert rows(tmp_path) == synced
    (written,) = (tmp_path / "output").glob("*.jsonl")
    lines = written.read_text().splitlines()
    assert len(lines) == 141
    assert {json.loads(line)["status"] for line in lines} == {"paid", "shipped", "new"}

    here.run("run", "tap-shop", "target-singerlake", "tap-singerlake", "target-jsonl")
    assert rows(tmp_path) == synced
    assert written.read_text().splitlines() == lines

    (version,) = json.loads(
        here.run("invoke", "singerlake", "--output", "json", "versions", "tap-shop.orders")
    )
    assert (version["number"], version["rows"], version["transaction"]) == (1, 100, 1)
    here.run("run", "vacuum-lake")
    assert "tap-shop.orders" in here.run("invoke", "singerlake:ls")


def test_the_plugins_are_added_to_a_new_project(tmp_path: Path, meltano: Path, wheel: Path) -> None:
    """Each by the hub's definition, which Meltano takes as it is written."""
    project.Project(tmp_path, meltano).run("init", "mine")
    folder = tmp_path / "mine"
    here = project.Project(folder, meltano)
    # The packages that it needs are those of this environment, instead of 600 MB for each plugin.
    (folder / ".env").write_text(f"SINGERLAKE_PIP_URL=--no-deps {wheel}\n")
    commands = project.hub_commands(definitions.ROOT)
    assert len(commands) == len(definitions.hub())
    for command in commands:
        here.run(*shlex.split(command)[1:])
    plugins = yaml.safe_load((folder / "meltano.yml").read_text("utf-8"))["plugins"]
    for path in definitions.hub():
        (known,) = plugins[path.split("/")[0]]
        wanted = yaml.safe_load((definitions.HUB / path).read_text("utf-8"))
        assert known["executable"] == wanted["executable"]
        assert known["settings"] == wanted["settings"]
        assert known.get("commands") == wanted.get("commands")
    for packages in folder.glob(".meltano/*/*/venv/lib/*/site-packages"):
        packages.joinpath("beside.pth").write_text(sysconfig.get_path("purelib"))

    lake = Lake.open(str(folder / "lake"), create=True)
    commit_rows(lake, str(ORDERS), {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    inside = folder / "deep" / "inside"  # the lake is the project's, wherever one is in it
    inside.mkdir(parents=True)
    said = here.run("invoke", "singerlake", "--output", "json", "ls", within="deep/inside")
    assert [table["table"] for table in json.loads(said)] == [str(ORDERS)]
    said = here.run("invoke", "tap-singerlake", "--discover", within="deep/inside")
    assert [stream["stream"] for stream in json.loads(said)["streams"]] == ["orders"]
    assert "tap_id" in here.run("invoke", "target-singerlake", "--about", within="deep/inside")
    assert not (inside / "lake").exists()


def test_the_project_is_what_meltanos_schema_allows(meltano: Path) -> None:
    (path,) = meltano.parents[1].glob("lib/*/site-packages/meltano/schemas/meltano.schema.json")
    schema = json.loads(path.read_text("utf-8"))
    jsonschema.validate(
        yaml.safe_load(definitions.MELTANO.read_text("utf-8")),
        schema,
        cls=jsonschema.Draft202012Validator,
    )
