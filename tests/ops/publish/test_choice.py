"""Which engine publishes, and what needs none of PySpark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import singerlake
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import InvalidQueryError, NotFoundError, UsageError, ViolationsError
from singerlake.format.names import TableName
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake
from singerlake.ops.publish.outcome import Outcome, Result
from singerlake.ops.publish.publish import publish
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import alter
from singerlake.publish.ad_hoc import AdHoc
from singerlake.publish.projection import Projection
from tests.build import commit_rows
from tests.cli.call import run

ROOT = Path(__file__).parents[3]
NAME = "tap.s"
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}


@pytest.fixture
def small(lake: Lake) -> Lake:
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": n, "name": f"n{n}"} for n in range(3)])
    return lake


@pytest.fixture
def tried(small: Lake, tmp_path: Path) -> Callable[..., Outcome]:
    def trying(choice: EngineChoice, **said: Any) -> Outcome:
        table = {} if "sql" in said else {"table": NAME}
        projection = AdHoc(str(tmp_path / "out"), **table, **said).projection(small)
        (outcome,) = publish(small, [projection], None, choice)
        return outcome

    return trying


def test_the_size_of_the_table_decides(
    small: Lake, tried: Callable[..., Outcome], no_java: EngineChoice, tmp_path: Path
) -> None:
    bytes_ = sum(block.bytes for block in small.find(NAME)[0].snapshot().blocks)
    assert str(tried(replace(no_java, limit=Work(bytes_ - 1, 100))).error) == "Java starts"
    assert not (tmp_path / "out" / "_latest.json").exists()
    assert tried(replace(no_java, limit=Work(bytes_, 100))).result is Result.DONE
    assert tried(EngineChoice(LOCAL, limit=Work())).result is Result.UP_TO_DATE


@pytest.mark.parametrize(
    "said", [{"where": "id > 1"}, {"sql": "select upper(name) as n from tap.s where id > 1"}]
)
def test_simple_sql_of_a_small_table_needs_no_java(
    small: Lake, tried: Callable[..., Outcome], no_java: EngineChoice, said: dict[str, str]
) -> None:
    assert str(tried(replace(no_java, limit=Work()), **said).error) == "Java starts"
    done = tried(no_java, **said).published
    assert done is not None
    assert (done.rows, done.full) == (1, True)
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 7, "name": "n7"}])
    again = tried(no_java, **said).published
    assert again is not None
    assert (again.rows, again.full) == (2, "where" not in said)
    assert tried(EngineChoice(LOCAL, limit=Work()), **said).result is Result.UP_TO_DATE


def test_other_sql_is_for_spark(tried: Callable[..., Outcome], no_java: EngineChoice) -> None:
    said = {"sql": "select reverse(name) as n from tap.s"}
    assert str(tried(no_java, **said).error) == "Java starts"
    refused = tried(EngineChoice(LOCAL), **said).error
    assert isinstance(refused, UsageError)
    assert "with the function reverse() needs Spark: use the engine auto or spark" in str(refused)


@pytest.mark.parametrize(
    "sql",
    ["select id * 9223372036854775807 as n from tap.s", "select id, upper(name) as n from tap.s"],
)
def test_rows_that_duckdb_does_not_answer_are_for_spark(
    small: Lake, tried: Callable[..., Outcome], no_java: EngineChoice, tmp_path: Path, sql: str
) -> None:
    """The rows alone say so, of which some may be written by then."""
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 4, "name": "é"}])
    assert str(tried(no_java, sql=sql).error) == "Java starts"
    refused = tried(EngineChoice(LOCAL), sql=sql).error
    assert isinstance(refused, UsageError)
    assert "needs Spark: use the engine auto or spark" in str(refused)
    assert not (tmp_path / "out" / "_latest.json").exists()


def test_changed_rows_that_duckdb_does_not_answer_are_for_spark(
    small: Lake, tried: Callable[..., Outcome], no_java: EngineChoice
) -> None:
    sql = "select id, upper(name) as n from tap.s"
    assert tried(no_java, sql=sql, key="id").result is Result.DONE
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 1, "name": "é"}])
    assert str(tried(no_java, sql=sql, key="id").error) == "Java starts"
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 1, "name": "N1"}, {"id": 2, "name": "N2"}])
    # In upper case they are the same.
    assert tried(no_java, sql=sql, key="id").result is Result.UP_TO_DATE


STAGED = "select id, upper(name) as n from tap.s"


def staged(lake: Lake, sql: str, choice: EngineChoice) -> Outcome:
    projection = Projection("p", sql, (NAME,), TableName("staging", "p"), key=("id",))
    (outcome,) = publish(lake, [projection], None, choice)
    return outcome


def test_staging_tables_of_simple_sql_need_no_java(small: Lake, no_java: EngineChoice) -> None:
    assert str(staged(small, STAGED, replace(no_java, limit=Work())).error) == "Java starts"
    first = staged(small, STAGED, no_java).staged
    assert first is not None
    assert (first.inserted, first.transaction) == (3, 1)
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 1, "name": "é"}])
    # The rows alone say so, and nothing is committed by then.
    assert str(staged(small, STAGED, no_java).error) == "Java starts"
    refused = staged(small, STAGED, EngineChoice(LOCAL)).error
    assert isinstance(refused, UsageError)
    assert "the SQL of p with" in str(refused)
    assert "needs Spark: use the engine auto or spark" in str(refused)
    assert small.table("staging.p").snapshot().number == 1


def test_large_staging_tables_are_for_spark(lake: Lake, no_java: EngineChoice) -> None:
    """They may be, though what they are made of is small."""
    rows = [{"id": n, "name": "n"} for n in range(5)]
    commit_rows(lake, NAME, COLUMNS, ["id"], rows)
    commit_rows(lake, "tap.x", COLUMNS, ["id"], rows)
    sql = "select s.id * 10 + x.id as id, s.name from tap.s join tap.x on s.name = x.name"
    few = replace(no_java, limit=Work(10_000, 30))
    assert staged(lake, sql, few).result is Result.DONE
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 5, "name": "n"}])
    assert str(staged(lake, sql, few).error) == "Java starts"
    done = staged(lake, sql, no_java).staged
    assert done is not None
    assert (done.inserted, done.transaction) == (5, 2)


def test_constraints_of_staging_tables_are_checked_where_they_can_be(
    small: Lake, no_java: EngineChoice
) -> None:
    assert staged(small, STAGED, no_java).result is Result.DONE
    table = small.table("staging.p")
    unique = partial(says.with_constraint, name="one", constraint=Constraint("unique", ["n"]))
    alter(table.store, table.snapshot(), unique)
    commit_rows(small, NAME, COLUMNS, ["id"], [{"id": 7, "name": "n1"}])
    error = staged(small, STAGED, no_java).error
    assert isinstance(error, ViolationsError)
    assert "n N1: 2 rows" in str(error)
    odd = Constraint("check", ["n"], sql="reverse(`n`) <> 'x'")
    alter(table.store, table.snapshot(), partial(says.with_constraint, name="odd", constraint=odd))
    assert str(staged(small, STAGED, no_java).error) == "Java starts"
    assert table.snapshot().last_block == 1


def test_columns_that_are_not_there_are_refused(tried: Callable[..., Outcome]) -> None:
    refused = tried(EngineChoice(LOCAL), order_by="nam").error
    assert isinstance(refused, UsageError)
    assert "'nam'" in str(refused)
    twice = tried(EngineChoice(LOCAL), sql="select id as n, name as n from tap.s").error
    assert isinstance(twice, (UsageError, InvalidQueryError))


def test_a_version_that_is_gone_is_named(small: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        AdHoc(str(tmp_path / "out"), f"{NAME}.7").projection(small)


def test_a_table_that_gets_other_columns_meanwhile_is_published_in_a_rerun(
    small: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.ops.publish import answers
    from singerlake.ops.publish.table_columns import wanted

    def slow(*args: Any) -> Any:
        found = wanted(*args)
        changed = {"id": COLUMNS["id"], "other": COLUMNS["name"]}
        commit_rows(small, NAME, changed, ["id"], [{"id": 9, "other": "x"}])
        return found

    monkeypatch.setattr(answers, "wanted", slow)
    projection = AdHoc(str(tmp_path / "out"), NAME).projection(small)
    (outcome,) = publish(small, [projection], None, EngineChoice(LOCAL))
    assert outcome.published is not None
    assert outcome.published.rows == 4


@pytest.mark.usefixtures("processes")
def test_a_small_table_needs_no_pyspark(small: Lake, tmp_path: Path) -> None:
    singerlake.open(small.store.uri)[NAME].freeze("first", engine=LOCAL)
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "import singerlake\n"
        "from tests.build import commit_rows\n"
        f"lake = singerlake.open({small.store.uri!r})\n"
        f"table = lake[{NAME!r}]\n"
        f"say = dict(to={str(tmp_path / 'out')!r}, order_by='name', versions=True)\n"
        "first = table.publish(**say).published\n"
        f"commit_rows(lake, {NAME!r}, {COLUMNS!r}, ['id'], [{{'id': 7, 'name': 'n7'}}])\n"
        "second = table.publish(**say).published\n"
        "print(first.full, first.versions, second.full, second.changed, second.rows)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("True (1,) False 1 4\n", 0), done.stderr


def test_first_publish_gives_one_reason_though_columns_changed_after_a_version(
    lake: Lake, tmp_path: Path
) -> None:
    columns: dict[str, Any] = {"id": {"type": "integer"}}
    commit_rows(lake, "tap.v", columns, ["id"], [{"id": 1}])
    assert run(lake, "freeze", "tap.v", "--engine", "local").exit_code == 0
    commit_rows(lake, "tap.v", {**columns, "n": {"type": "integer"}}, ["id"], [{"id": 2, "n": 1}])
    file = tmp_path / "projections.yml"
    text = f"{{name: v, from: tap.v, to: {tmp_path / 'out'}, format: csv, versions: true}}"
    file.write_text(f"version: 1\nprojections: [{text}]\n")
    done = run(lake, "publish", "v", "--projections", str(file), "--engine", "local")
    assert done.exit_code == 0, done.output
    assert "it is new: all " in " ".join(done.stdout.split())
