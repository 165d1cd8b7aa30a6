"""The repository's Meltano project, run by the real Meltano."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.transactions.snapshot import Snapshot
from tests.meltano import definitions, project

pytestmark = [pytest.mark.slow, pytest.mark.spark]
ORDERS = TableName("tap-shop", "orders")


@pytest.fixture(scope="module")
def meltano() -> Path:
    return project.installed()


def orders(folder: Path) -> Snapshot:
    return Lake.open(str(folder / "lake")).table(ORDERS).snapshot()


def test_the_project_syncs_freezes_and_plays_back(tmp_path: Path, meltano: Path) -> None:
    here = project.copied(tmp_path, meltano)
    here.run("install", "loader", "target-jsonl")

    here.run("run", "shop-to-lake")
    snapshot = orders(tmp_path)
    assert [(t.operation, t.rows) for t in snapshot.transactions] == [("sync", 100), ("freeze", 0)]
    (version,) = json.loads(
        here.run("invoke", "singerlake", "--output", "json", "versions", "tap-shop.orders")
    )
    assert (version["number"], version["rows"], version["transaction"]) == (1, 100, 1)

    here.run("run", "tap-shop", "target-singerlake")
    assert [t.rows for t in orders(tmp_path).transactions] == [100, 0, 41]
    here.run("run", "tap-shop", "target-singerlake")
    assert [t.rows for t in orders(tmp_path).transactions] == [100, 0, 41]

    here.run("run", "tap-singerlake", "target-jsonl")
    (written,) = (tmp_path / "output").glob("*.jsonl")
    lines = written.read_text().splitlines()
    assert len(lines) == 141
    assert {json.loads(line)["status"] for line in lines} == {"paid", "shipped", "new"}
    here.run("run", "tap-singerlake", "target-jsonl")
    assert written.read_text().splitlines() == lines

    assert "tap-shop.orders" in here.run("invoke", "singerlake:ls")


def test_the_hubs_definitions_are_plugins_to_meltano(tmp_path: Path, meltano: Path) -> None:
    here = project.Project(tmp_path, meltano)
    (tmp_path / "meltano.yml").write_text("default_environment: dev\nenvironments: [{name: dev}]\n")
    for path in definitions.hub():
        kind, name, _ = path.split("/")
        reference = definitions.HUB / path
        here.run("add", "--no-install", "--plugin-type", kind, "--from-ref", str(reference), name)
        (lock,) = (tmp_path / "plugins" / kind).glob(f"{name}*.lock")
        known = json.loads(lock.read_text("utf-8"))
        wanted = yaml.safe_load(reference.read_text("utf-8"))
        assert known["executable"] == wanted["executable"]
        assert known["settings"] == wanted["settings"]
        assert set(known.get("commands", ())) == set(wanted.get("commands", ()))


def test_the_project_is_what_meltanos_schema_allows(meltano: Path) -> None:
    (path,) = meltano.parents[1].glob("lib/*/site-packages/meltano/schemas/meltano.schema.json")
    schema = json.loads(path.read_text("utf-8"))
    jsonschema.validate(
        yaml.safe_load(definitions.MELTANO.read_text("utf-8")),
        schema,
        cls=jsonschema.Draft202012Validator,
    )
