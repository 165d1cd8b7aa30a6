"""Many tables frozen as one on Spark: what a run leaves that ends half-way, and who uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import singerlake
from singerlake.lake import Lake
from singerlake.ops import freeze_lake as job
from singerlake.ops.freeze import freeze
from tests.build import commit_rows
from tests.cli.call import run, run_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = {"id": {"type": "integer"}, "n": {"type": "integer"}}


def test_a_run_that_ends_half_way_leaves_versions_and_no_lake_version(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 1}, {"id": 2}])
    commit_rows(lake, "tap.b", ID, ["id"], [{"id": 1, "n": "none"}])

    def killed(table: Any, *wanted: Any) -> Any:
        if table.name.stream == "b":
            raise KeyboardInterrupt
        return freeze(table, *wanted)

    with monkeypatch.context() as patch:
        patch.setattr(job, "freeze", killed)
        assert run(lake, "freeze", "--all", "--label", "q3").exit_code == 130
    assert (len(lake.find("tap.a")[0].versions()), lake.lake_versions()) == (1, [])
    # A value does not fit: all that is wrong is told, and what could be frozen is.
    commit_rows(lake, "tap.c", ID, ["id"], [{"id": 1}])
    result = run(lake, "freeze", "--all", "--label", "q3")
    assert (result.exit_code, lake.lake_versions()) == (5, [])
    assert "error: tap.b: tap.b at transaction 1 has values that do not fit" in result.stderr
    assert "no lake version was created: the versions that exist stay" in result.stderr
    assert "tap.a version 1: 2 rows" in result.stdout and "; it already existed" in result.stdout
    assert "tap.c version 1: 1 row" in result.stdout
    commit_rows(lake, "tap.b", ID, ["id"], [{"id": 1, "n": 7}])
    done = run_json(lake, "freeze", "--all", "--label", "q3")
    assert [one["new"] for one in done["tables"]] == [False, True, False]
    assert [one["version"] for one in done["lake_version"]["tables"]] == [1, 1, 1]


def test_verify_a_lake_version(spark: SparkSession, lake: Lake) -> None:
    for name in ("tap.a", "tap.b"):
        commit_rows(lake, name, ID, ["id"], [{"id": 1}])
    run(lake, "freeze", "tap", "--label", "q3")
    result = run(lake, "verify", "--lake-version", "q3")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "lake version 1 (q3): 2 tables: as in the tables' logs\ntap.a: "
    )
    assert run(lake, "verify", "--all").exit_code == 0
    run(lake, "versions", "tap.a", "--delete", "1", "--reason", "a person left")
    result = run(lake, "verify", "--lake-version", "q3")
    assert result.exit_code == 0  # it was meant to go
    assert result.stdout.startswith(
        "lake version 1 (q3): 1 of 2 tables: as in the tables' logs; 1 cannot be read\n  note: "
    )
    lines = json.loads(run(lake, "--output", "json", "verify", "--lake-version", "1").stdout)
    assert [one.get("table") for one in lines] == [None, "tap.b"]
    assert "version 1 of tap.a was deleted by" in lines[0]["notes"][0]


def test_queries_and_programs_read_all_tables_as_they_were(spark: SparkSession, lake: Lake) -> None:
    opened = singerlake.open(lake.store.uri, create=True)
    for name in ("tap.a", "tap.b"):
        commit_rows(lake, name, ID, ["id"], [{"id": 1}])
    version = opened.freeze("q3", comment="as reported", spark=spark)
    assert (version.number, version.label, version.rows) == (1, "q3", 2)
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 2}])
    commit_rows(lake, "tap.c", ID, ["id"], [{"id": 3}])
    sql = "select (select count(*) from tap.a) as a, (select count(*) from tap.b) as b"
    both = "select (select count(*) from tap.a.`@4`) as now, (select count(*) from tap.a) as a"
    done = run(lake, "query", sql, "--lake-version", "q3", "--format", "csv")
    assert done.stdout == "a,b\n1,1\n"
    assert done.stderr == "read tap.a.1 at transaction 1; read tap.b.1 at transaction 1\n"
    assert run(lake, "query", sql, "--format", "csv").stdout == "a,b\n2,1\n"
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 4}])
    done = run(lake, "query", both, "--lake-version", "1", "--format", "csv")
    assert done.stdout == "now,a\n3,1\n"  # who names a state gets that
    at = opened.at("q3")
    assert at["tap.a"].to_arrow().to_pylist() == [{"id": 1, "n": None}]
    with at.query("select id from tap.a", spark=spark) as answer:
        assert answer.to_arrow().to_pylist() == [{"id": 1}]
    with pytest.raises(singerlake.NotFoundError, match=r"has no table tap\.c"):
        at["tap.c"]
    result = run(lake, "query", "select * from tap.c", "--lake-version", "q3")
    assert (result.exit_code, "lake version 1 (q3) has no table tap.c" in result.stderr) == (
        3,
        True,
    )
    assert opened.freeze(tables=["tap.b"], spark=spark).tables[0].version == 1


def test_what_differs_between_two_lake_versions(spark: SparkSession, lake: Lake) -> None:
    for name in ("tap.a", "tap.b", "tap.c"):
        commit_rows(lake, name, ID, ["id"], [{"id": 1}, {"id": 2}])
    run(lake, "freeze", "tap.a", "tap.b", "--label", "q2")
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 2, "n": 7}, {"id": 3}, {"id": 4}])
    run(lake, "freeze", "tap.a", "tap.c", "--label", "q3")
    found = run_json(lake, "diff", "--lake-versions", "q2", "q3")
    members = ("table", "from", "to", "added", "changed", "removed", "unchanged", "cells")
    assert [tuple(one[name] for name in members) for one in found["tables"]] == [
        ("tap.a", 1, 2, 2, 1, 0, 1, {"n": 1}),
        ("tap.b", 1, None, 0, 0, 2, 0, None),
        ("tap.c", None, 1, 2, 0, 0, 0, None),
    ]
    result = run(lake, "diff", "--lake-versions", "1", "1")  # of the same rows: no Java is needed
    assert "lake version 1 (q2) to lake version 1 (q2)" in result.stdout
    assert run_json(lake, "diff", "--lake-versions", "1", "1")["tables"][0]["unchanged"] == 2
    for args, code in (
        (["tap.a", "--lake-versions", "1", "2"], 2),
        (["--lake-versions", "1", "2", "--format", "csv"], 2),
        (["--lake-versions", "1", "9"], 3),
        (["--lake-versions", "1"], 2),
        (["tap.a"], 2),
        ([], 2),
    ):
        assert run(lake, "diff", *args).exit_code == code, args
