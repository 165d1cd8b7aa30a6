"""The reference of projections.yml and the example agree with the code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from singerlake.lake import Lake
from singerlake.publish import declaration
from tests.build import commit_rows
from tests.cli.call import run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "projections.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "projections.yml"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
GRAPH = [
    "tap-shop.orders",
    "└─ paid_orders → staging.paid_orders → published/paid_orders (parquet)",
    "   └─ revenue_by_city → published/revenue_by_city (csv)",
    "tap-shop.customers",
    "└─ revenue_by_city → published/revenue_by_city (csv)",
]


def test_yaml_of_page_and_example_is_valid(tmp_path: Path) -> None:
    schema = json.loads(declaration.SCHEMA.read_text("utf-8"))
    assert len(BLOCKS) > 1
    for text in [*BLOCKS, EXAMPLE.read_text("utf-8")]:
        if text.startswith("plugins:"):
            (utility,) = yaml.safe_load(text)["plugins"]["utilities"]
            listed = utility["config"]["projections"]
            text = yaml.safe_dump({"version": 1, "projections": listed})
        jsonschema.validate(yaml.safe_load(text), schema)
        (tmp_path / "projections.yml").write_text(text, encoding="utf-8")
        assert declaration.read(tmp_path / "projections.yml")


def test_table_lists_every_option() -> None:
    section = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [*declaration.FIELDS]


def test_table_of_states_lists_every_reason() -> None:
    from singerlake.publish.status import OutdatedReason

    assert [why for why in OutdatedReason if f"`{why}`" not in PAGE] == []


def test_example_has_the_graph_and_schema_it_names(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    for table in ("tap-shop.orders", "tap-shop.customers"):
        commit_rows(lake, table, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    drawn = run(lake, "projections", "--graph").stdout
    assert drawn.splitlines() == GRAPH
    first = EXAMPLE.read_text("utf-8").partition("\n")[0]
    schema = EXAMPLE.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert schema.resolve() == declaration.SCHEMA.resolve()
