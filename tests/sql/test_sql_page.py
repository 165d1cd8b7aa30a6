"""docs/reference/sql.md names what is in the set, and what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot import exp

from singerlake.engine.choice import EngineChoice
from singerlake.lake import Lake
from singerlake.sql.local.expressions import WRITERS
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.query import query
from singerlake.sql.local.statement import SELECT_PARTS
from singerlake.sql.local.text import parsed
from tests.build import commit_rows
from tests.histories import here

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
LOCAL = EngineChoice("local")
FROM = "from tap_shop.orders o"
STATEMENTS = {
    "select list": "{} " + FROM,
    "aggregates": "select {} " + FROM,
    "functions, also in conditions": "select {} as c " + FROM,
    "case, and arithmetic of `bigint` and `decimal`, in the select list with `AS`": (
        "select {} as c " + FROM
    ),
    "groups": "select status " + FROM + " {}",
    "order": "select id, status " + FROM + " {}",
    "limits": "select id " + FROM + " {}",
    "joins": "select o.id " + FROM + " {} tap_shop.items i on o.id = i.id",
    "tables": "select id from {}",
}
"""Statements around the examples of a row; of all others, the example is a condition."""


def rows(start: str) -> Iterator[list[str]]:
    text = PAGE.read_text("utf-8")
    for line in text[text.index(start) :].splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| part", "| not in the set")):
            yield [cell.strip() for cell in line.strip("|").split("|")]
        elif line in ("<!-- end -->", "Spark also answers"):
            return


def examples() -> Iterator[str]:
    for part, cell in rows("<!-- set -->"):
        for one in re.findall(r"``\s(.+?)\s``|`([^`]+)`", cell):
            example = "".join(one)
            if example == "from a, b":
                yield "select o.id from tap_shop.orders o, tap_shop.items i"
            elif "cross" in example:
                yield f"select o.id {FROM} cross join tap_shop.items"
            elif "order by count" in example or example.startswith("having"):
                yield f"select status {FROM} group by status {example}"
            elif part in STATEMENTS and example != "AS":
                yield STATEMENTS[part].format(example)
            elif example != "AS":
                yield f"select id {FROM} where {example}"
                yield f"select {example} as c {FROM}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(str(tmp_path_factory.mktemp("page") / "lake"), create=True)
    columns = {
        "id": {"type": "integer"},
        "status": {"type": "string"},
        "note": {"type": "string"},
        "paid": {"type": "boolean"},
        "total": {"type": "number", "multipleOf": 0.01},
        "weight": {"type": "number"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    commit_rows(lake, "tap-shop.orders", columns, ["id"], [{"id": 1, "status": "paid"}])
    here.freeze(lake.table("tap-shop.orders"))
    commit_rows(lake, "tap-shop.items", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    return lake


def test_every_example_of_the_set_is_answered(lake: Lake) -> None:
    tried = list(examples())
    assert len(tried) > 50
    for sql in tried:
        query(lake, sql, LOCAL).close()


def test_every_node_of_the_set_is_on_the_page() -> None:
    shown: set[type[exp.Expr]] = set()
    clauses: set[str] = set()
    for sql in examples():
        tree = parsed(sql)
        shown |= {type(node) for node in tree.walk()}
        clauses |= {name for name, value in tree.args.items() if value}
    assert set(WRITERS) - shown == set()
    assert set(SELECT_PARTS) == clauses


def test_what_is_not_in_the_set_is_not_answered(lake: Lake) -> None:
    tried = [row[1].strip("`") for row in rows("## Not in the set")]
    assert len(tried) > 8
    for sql in tried:
        with pytest.raises(OutsideError):
            query(lake, sql, LOCAL)
