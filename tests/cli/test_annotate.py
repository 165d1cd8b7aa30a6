"""singerlake annotate, and the commands that show what it notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from singerlake.lake import Lake
from singerlake_cli.main import cli
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string", "description": "The tap's"}}


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1}])
    return lake


def run(lake: Lake, *args: str) -> Result:
    return CliRunner().invoke(cli, ["--lake", lake.store.uri, *args])


def annotate(lake: Lake, *args: str) -> str:
    result = run(lake, "annotate", *args)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_noted_is_shown(filled: Lake) -> None:
    url = "https://example.com/orders"
    said = ["--owner", "ada", "--documentation", url, "--tag", "a", "--tag", "b"]
    assert annotate(filled, "tap-shop.orders", *said) == "tap-shop.orders: annotated\n"
    assert "already annotated" in annotate(filled, "tap-shop.orders", "--tag", "a")
    annotate(filled, "tap-shop.orders.name", "--description", "A person's")
    shown = run(filled, "show", "tap-shop.orders").output
    for text in ("owner         ada", url, "a, b", "A person's"):
        assert text in shown
    assert "The tap's" not in shown
    annotate(filled, "tap-shop.orders.name", "--description", "")
    assert "The tap's" in run(filled, "show", "tap-shop.orders").output
    assert "ada" in run(filled, "ls").output
    annotate(filled, "tap-shop", "--deprecated", "--owner", "eve")
    listed = json.loads(run(filled, "--output", "json", "ls").output)
    assert (listed[0]["owner"], listed[0]["deprecated"]) == ("ada", "yes")
    annotate(filled, "tap-shop.orders", "--tag", "", "--tag", "c", "--owner", "")
    facts = json.loads(run(filled, "--output", "json", "show", "tap-shop.orders").output)
    assert facts["annotations"]["tags"] == ["c"]
    assert facts["owner"] == "eve"  # the tap's


def test_a_dry_run_changes_nothing(filled: Lake) -> None:
    before = Path(filled.store.uri, "raw", "singerlake.json").read_bytes()
    assert "would be" in annotate(filled, "--owner", "ada", "--dry-run")
    assert Path(filled.store.uri, "raw", "singerlake.json").read_bytes() == before


def test_a_file_says_many_at_once(filled: Lake, tmp_path: Path) -> None:
    file = tmp_path / "annotations.yml"
    said = {"owner": "all", "taps": {"tap-shop": {"tables": {"orders": {"freshness": "1d"}}}}}
    file.write_text(yaml.safe_dump(said))
    assert "2 subjects: annotated" in annotate(filled, "--from", str(file))
    assert yaml.safe_load(annotate(filled, "--export")) == said
    said["taps"]["tap-shop"]["tables"] = {
        "ordres": {"owner": "x"},
        "orders": {"columns": {"x": {"tags": ["t"]}}},
    }  # type: ignore[index]
    said["owner"] = "other"
    file.write_text(yaml.safe_dump(said))
    result = run(filled, "annotate", "--from", str(file))
    assert result.exit_code == 3
    assert "no table tap-shop.ordres" in result.output
    assert "no column tap-shop.orders.x" in result.output
    assert yaml.safe_load(annotate(filled, "--export"))["owner"] == "all"


def test_contracts_come_out_as_yaml_and_json(filled: Lake) -> None:
    contract = yaml.safe_load(annotate(filled, "tap-shop.orders", "--export", "--format", "odcs"))
    assert contract["schema"][0]["name"] == "orders"
    args = ["--output", "json", "annotate", "--export", "--format", "odcs"]
    assert json.loads(run(filled, *args).output) == contract


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "nothing to annotate:"),
        (["tap-shop"], 2, "nothing to annotate:"),
        (["tap-y", "--owner", "x"], 3, "no tap"),
        (["tap-shop.x", "--owner", "x"], 3, "no table"),
        (["tap-shop.orders.x", "--owner", "x"], 3, "no column"),
        (["tap-shop.orders.1", "--owner", "x"], 2, "version"),
        (["tap-shop.orders.id", "--freshness", "1h"], 2, "column"),
        (["tap-shop", "--job", "ftp://x"], 2, "https:"),
        (["--owner", "x", "--export"], 2, "use one of"),
        (["--owner", "x", "--format", "odcs"], 2, "--export"),
        (["tap-shop", "--from", __file__], 2, "leave out"),
        (["--deprecated", "tap-shop.orders"], 2, "write the name first"),
        (["tap-shop.orders.id", "--export", "--format", "odcs"], 2, "column"),
    ],
)
def test_wrong_input_is_one_line(filled: Lake, args: list[str], code: int, says: str) -> None:
    result = run(filled, "annotate", *args)
    assert result.exit_code == code, result.output
    assert says in result.output
    assert len(result.output.splitlines()) == 1


def test_a_lake_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["--lake", str(tmp_path / "x"), "annotate", "--owner", "x"])
    assert result.exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_discovery_tells_what_is_said(filled: Lake) -> None:
    annotate(filled, "tap-shop", "--owner", "eve")
    annotate(filled, "tap-shop.orders", "--description", "All orders")
    annotate(filled, "tap-shop.orders.id", "--classification", "public")
    tap = TapSingerlake(config={"lake": filled.store.uri})
    (stream,) = tap.catalog_dict["streams"]
    metadata: dict[tuple[str, ...], Any] = {
        tuple(one["breadcrumb"]): one["metadata"] for one in stream["metadata"]
    }
    assert metadata[()]["singerlake.description"] == "All orders"
    assert metadata[()]["singerlake.owner"] == "eve"
    assert metadata["properties", "id"]["singerlake.classification"] == "public"
    again = TapSingerlake(config={"lake": filled.store.uri}, catalog=tap.catalog_dict)
    assert [s.tap_stream_id for s in again.streams.values()] == ["orders"]


def test_nothing_goes_out_of_a_lake_whose_file_is_damaged(filled: Lake, tmp_path: Path) -> None:
    annotate(filled, "tap-shop.orders", "--classification", "confidential")
    file = Path(filled.store.uri, "raw", "singerlake.json")
    file.write_bytes(file.read_bytes()[:-10])
    site = ["docs", "--out", str(tmp_path / "site"), "--samples", "2"]
    for args in (["annotate", "--export"], ["annotate", "--export", "--format", "odcs"], site):
        result = run(filled, *args)
        assert result.exit_code == 5, result.output
        assert "singerlake.json" in result.stderr
    assert not (tmp_path / "site").exists()
