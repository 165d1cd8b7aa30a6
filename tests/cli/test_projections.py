"""singerlake projections: the list, the graph, and what scripts go by."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pytest

from singerlake.errors import UsageError
from singerlake.format.annotations import Publication
from singerlake.lake import Lake
from singerlake.publish import registry
from singerlake.publish.ad_hoc import AdHoc
from singerlake.publish.declaration import SCHEMA, read
from singerlake_cli.main import cli
from singerlake_cli.projection_names import complete_projection, complete_published
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.publish.standing import publish, stage, sync

ORDERS, ITEMS = "tap-shop.orders", "tap-shop.order-items"
DECLARED = """\
version: 1
projections:
- name: report
  sql: select 1 from staging.orders o join tap_shop.order_items i on o.id = i.id
  to: out/report
  format: csv
- name: clean
  from: tap_shop.orders
  stage: staging.orders
  key: id
- name: raw
  from: tap-shop.orders
  to: out/raw
  order_by: id
- name: items
  from: tap-shop.order-items
  stage: staging.items
"""


@pytest.fixture
def shop(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text(DECLARED)
    commit_rows(lake, ORDERS, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    commit_rows(lake, ITEMS, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    return lake


def by_name(found: list[Any]) -> dict[str, Any]:
    return {one["name"]: one for one in found}


def test_the_list_says_what_is_out_of_date_and_why(shop: Lake, tmp_path: Path) -> None:
    text = run(shop, "projections").stdout
    for words in ("staging.orders: never built", "never published", "singerlake publish --all"):
        assert words in text
    declared = {one.name: one for one in read(tmp_path / "projections.yml")}
    stage(shop, declared["clean"], ORDERS)
    stage(shop, declared["items"], ITEMS)
    publish(shop, declared["raw"], ORDERS, files=[[1, 3], [2, 4]])
    publish(shop, declared["report"], "staging.orders", ITEMS)
    found = by_name(run_json(shop, "projections"))
    assert list(found) == ["clean", "report", "raw", "items"]  # in the order of running
    assert all(one["up_to_date"] for one in found.values())
    assert found["raw"] == {
        "name": "raw",
        "reads": [{"table": ORDERS, "version": None, "timestamp": None, "projection": None}],
        "stage": None,
        "to": str(tmp_path / "out" / "raw"),
        "format": "parquet",
        "up_to_date": True,
        "reasons": [],
        "rows": 4,
        "overlap": 1.0,
        "error": None,
        "declared": "projections.yml, line 11",
    }
    assert run(shop, "projections", "--exit-code").exit_code == 0
    assert "publish --all" not in run(shop, "projections").stdout
    sync(shop, ORDERS)
    found = by_name(run_json(shop, "projections", "--exit-code", code=1))
    assert found["raw"]["reasons"] == [
        {
            "reason": "behind",
            "message": f"1 transaction behind {ORDERS}",
            "table": ORDERS,
            "transactions": 1,
        }
    ]
    assert [one["reason"] for one in found["report"]["reasons"]] == ["upstream"]
    assert found["items"]["up_to_date"]
    assert run(shop, "projections", "--exit-code", "items").exit_code == 0
    only = run_json(shop, "projections", "report")
    assert [one["name"] for one in only] == ["clean", "report"]


def test_one_that_cannot_be_told_hides_no_other(shop: Lake, tmp_path: Path) -> None:
    Path("out/raw").mkdir(parents=True)
    Path("out/raw/thesis.txt").write_text("x")
    result = run(shop, "projections")
    assert result.exit_code == 2
    assert "unknown" in result.stdout
    assert "staging.orders: never built" in result.stdout
    assert result.stderr.startswith("error: raw: ")
    found = by_name(run_json(shop, "projections", code=2))
    assert (found["raw"]["up_to_date"], found["raw"]["error"]["kind"]) == (None, "usage")


def test_the_graph(shop: Lake) -> None:
    assert run(shop, "projections", "--graph").stdout.splitlines() == [
        "tap-shop.orders",
        "├─ clean → staging.orders",
        "│  └─ report → out/report (csv)",
        "└─ raw → out/raw (parquet)",
        "tap-shop.order-items",
        "├─ report → out/report (csv)",
        "└─ items → staging.items",
    ]
    dot = run(shop, "projections", "--graph", "dot", "clean").stdout.splitlines()
    assert dot == [
        "digraph projections {",
        "  rankdir=LR;",
        '  n1 [label="tap-shop.orders", shape=box];',
        '  n2 [label="clean", shape=ellipse];',
        '  n3 [label="staging.orders", shape=box];',
        "  n1 -> n2;",
        "  n2 -> n3;",
        "}",
    ]
    mermaid = run(shop, "projections", "--graph", "mermaid", "clean").stdout.splitlines()
    assert mermaid == [
        "flowchart LR",
        '  n1["tap-shop.orders"]',
        '  n2(["clean"])',
        '  n3["staging.orders"]',
        "  n1 --> n2",
        "  n2 --> n3",
    ]
    found = run_json(shop, "projections", "--graph", "tree", "clean")
    assert found["nodes"][1] == {"name": "clean", "kind": "projection"}
    assert found["edges"] == [
        {"from": ORDERS, "to": "clean"},
        {"from": "clean", "to": "staging.orders"},
    ]


def test_what_is_read_twice_is_drawn_below_the_first(shop: Lake) -> None:
    Path("projections.yml").write_text(
        "version: 1\nprojections:\n"
        "- {name: a, stage: s.a, sql: 'select 1 from tap_shop.orders, tap_shop.order_items.1'}\n"
        "- {name: b, stage: s.b, from: s.a}\n"
    )
    assert run(shop, "projections", "--graph").stdout.splitlines() == [
        "tap-shop.orders",
        "└─ a → s.a",
        "   └─ b → s.b",
        "tap-shop.order-items",
        "└─ a (of version 1) → s.a (as above)",
    ]


def test_the_json_schema_needs_no_lake(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none"), "projections", "--json-schema")
    assert json.loads(result.stdout) == json.loads(SCHEMA.read_text())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--projections", "none.yml"], 2, "none.yml cannot be read: No such file"),
        (["clear"], 2, "no projection 'clear' is declared: did you mean clean?"),
        (["--graph", "svg"], 2, "'svg' is not one of"),
    ],
)
def test_wrong_input_is_one_line(shop: Lake, args: list[str], code: int, says: str) -> None:
    result = run(shop, "projections", *args)
    assert result.exit_code == code
    assert says in result.stderr
    assert result.stdout == ""


def test_mistakes_in_the_file(shop: Lake) -> None:
    Path("projections.yml").write_text(DECLARED.replace("tap-shop.order-items", "tap-shop.items"))
    result = run(shop, "projections")
    assert result.exit_code == 3
    assert "items (projections.yml, line 15): the lake has no table" in result.stderr
    assert "did you mean tap-shop.order-items?" in result.stderr
    Path("projections.yml").unlink()
    result = run(shop, "projections")
    assert (result.exit_code, "--projections" in result.stderr) == (3, True)


def test_names_are_completed(shop: Lake) -> None:
    context = click.Context(cli, info_name="singerlake")
    context.params["uri"] = shop.store.uri
    inner = click.Context(click.Command("projections"), parent=context)
    parameter = click.Argument(["names"])
    assert complete_projection(inner, parameter, "r") == ["report", "raw"]
    inner.params["file"] = Path("none.yml")
    assert complete_projection(inner, parameter, "r") == []
    assert complete_published(inner, parameter, "") == []
    registry.enter(shop, "raw", Publication(tables=[ORDERS], to="out", format="csv"))
    assert complete_published(inner, parameter, "r") == ["raw"]
    context.params["uri"] = "none"
    assert complete_published(inner, parameter, "r") == []


def test_a_place_of_another_table_is_not_taken_by_mistake(shop: Lake, tmp_path: Path) -> None:
    one = AdHoc(to="out/x", table="tap_shop.orders").projection(shop)
    publish(shop, one, ORDERS)
    registry.note(shop, one)
    other = ("publish", "--table", "tap_shop.order_items", "--to", "out/x")
    with mock.patch("singerlake_cli.shared.begin_spark", side_effect=LookupError) as java:
        for more in ([], ["--dry-run"]):
            refused = run(shop, *other, *more)
            assert refused.exit_code == UsageError.exit_code
            assert f"holds rows of {ORDERS}, not of {ITEMS}: " in refused.output
            assert "--full-refresh" in refused.output
        same = run(shop, "publish", "--table", "tap_shop.orders", "--to", "out/x")
        assert same.output == f"{tmp_path}/out/x: up to date\n"
        java.assert_not_called()
        run(shop, *other, "--full-refresh", "--engine", "spark")
        java.assert_called_once()


def test_a_place_is_unpublished_as_it_is_typed(shop: Lake, tmp_path: Path) -> None:
    one = AdHoc(to="out/x", table="tap_shop.orders").projection(shop)
    publish(shop, one, ORDERS)
    registry.note(shop, one)
    (tmp_path / "out" / "x" / "v9").mkdir()
    (tmp_path / "out" / "x" / "v9" / "mine").touch()
    ended = run(shop, "unpublish", "out/../out/x", "--delete", "--yes")
    assert ended.exit_code == 0, ended.output
    assert ended.output == (
        f"{one.name} is no longer published: the files at {one.name} (parquet) are deleted; files "
        "that Singerlake did not write stay (v9/mine)\n"
    )
    assert (tmp_path / "out" / "x" / "v9" / "mine").exists()
    assert Lake.open(shop.store.uri).annotations().published == {}
    assert run(shop, "unpublish", "out/x").exit_code == 3


@pytest.mark.usefixtures("processes")
def test_neither_spark_nor_boto3_is_imported(shop: Lake) -> None:
    code = (
        "import sys\n"
        "from singerlake_cli.main import cli\n"
        f"cli.main(args={['--lake', shop.store.uri, 'projections']!r}, standalone_mode=False)\n"
        "heavy = {'pyspark', 'boto3', 'singer_sdk', 'fastavro'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
