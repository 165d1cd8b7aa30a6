"""docs/projections.md and the example: what they declare can be, and looks as they show."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from singerlake.lake import Lake
from singerlake.projections import declaration
from tests.build import commit_rows
from tests.cli.call import run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "projections.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "projections.yml"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def test_what_is_shown_can_be_declared(tmp_path: Path) -> None:
    schema = json.loads(declaration.SCHEMA.read_text("utf-8"))
    assert len(BLOCKS) > 2
    for text in [*BLOCKS, EXAMPLE.read_text("utf-8")]:
        if text.startswith("plugins:"):
            (utility,) = yaml.safe_load(text)["plugins"]["utilities"]
            listed = utility["config"]["projections"]
            text = yaml.safe_dump({"version": 1, "projections": listed})
        jsonschema.validate(yaml.safe_load(text), schema)
        (tmp_path / "projections.yml").write_text(text, encoding="utf-8")
        assert declaration.read(tmp_path / "projections.yml")


def test_every_field_is_in_the_table() -> None:
    section = PAGE.partition("\n## Declaring\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [*declaration.FIELDS]


def test_every_reason_is_named() -> None:
    from singerlake.projections.status import Why

    assert [why for why in Why if f"`{why}`" not in PAGE] == []


def test_the_example_is_drawn_as_shown(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    for table in ("tap-shop.orders", "tap-shop.customers"):
        commit_rows(lake, table, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    drawn = run(lake, "projections", "--graph").stdout
    assert f"$ singerlake projections --graph\n{drawn}```" in PAGE
    first = EXAMPLE.read_text("utf-8").partition("\n")[0]
    schema = EXAMPLE.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert schema.resolve() == declaration.SCHEMA.resolve()
