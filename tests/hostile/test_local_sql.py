"""The same SQL on DuckDB: what would read files, write, or tell what the process knows."""

from __future__ import annotations

import os

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake
from singerlake.ops.change.plan import Mode
from singerlake.ops.change.selected_rows import change_selected
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest, erase
from singerlake.rows.state.shape import shape_of
from singerlake.sql import functions
from singerlake.sql.answers import answer
from singerlake.sql.constraints import with_check
from singerlake.sql.local.constraints import check_in_set
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.text import FUNCTIONS
from tests.hostile.test_sql import REFUSED, SECRET, contents, folder_of, hostile_lake

LOCAL = EngineChoice("local")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return hostile_lake(tmp_path_factory.mktemp("sql"))


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_and_nothing_is_touched(lake: Lake, sql: str) -> None:
    folder = folder_of(lake)
    before = contents(folder)
    with pytest.raises(SingerlakeError) as caught:
        list(answer(lake, sql.format(folder=folder), LOCAL).rows())
    assert caught.value.exit_code in (2, 3)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def test_no_function_is_called_but_those_of_the_set(lake: Lake) -> None:
    for name in functions.ALLOWED | set(functions.REFUSED):
        calls = [f"`{name}`(id)", *([f"{name}(id)"] if name.upper() not in FUNCTIONS else [])]
        for call in calls:
            with pytest.raises(SingerlakeError, match="needs Spark"):
                answer(lake, f"select {call} as a from tap.s", LOCAL)


FILES = [
    "select * from '{folder}/canary.csv'",
    "select * from `{folder}/canary.csv`",
    "select * from read_csv('{folder}/canary.csv')",
    "select foo from tap.s where foo = read_text('{folder}/canary.csv')",
    "select * from duckdb_settings()",
    "select * from information_schema.tables",
    "select * from tap.s where foo in (select content from read_text('{folder}/canary.csv'))",
    "select getenv('PATH') as a from tap.s",
    "select current_setting('home_directory') as a from tap.s",
    "select * from t0",
    "select * from lake",
    "attach '{folder}/x.db'",
    "copy tap.s to '{folder}/out'",
    "pragma database_list",
    "select foo from tap.s; copy tap.s to '{folder}/out'",
    "select foo from tap.s where foo = '$1' or foo = $1",
    "select foo from tap.s where foo = ''; drop table t0; --'",
    'select "t0"."c0" from tap.s',
    "select t0.c0 from tap.s",
    'select foo as "x" from tap.s',
]


@pytest.mark.parametrize("sql", FILES)
def test_what_duckdb_would_understand_does_not_reach_it(lake: Lake, sql: str) -> None:
    folder = folder_of(lake)
    before = contents(folder)
    with pytest.raises(SingerlakeError) as caught:
        answer(lake, sql.format(folder=folder), LOCAL)
    assert SECRET not in str(caught.value)
    assert os.environ["PATH"] not in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "text", ["$1", "a'b", '"', ";", "--", "/* */", "%s", "{}", "t0.c0", "')", "`", "NULL", "😀"]
)
def test_strings_and_names_are_what_they_are(lake: Lake, text: str) -> None:
    if "'" not in text:
        with answer(lake, f"select count(*) from tap.s where foo <> '{text}'", LOCAL) as result:
            assert list(result.rows()) == [(3,)]
    name = text.replace("`", "``")
    with answer(lake, f"select foo as `{name}` from tap.s `{name}` limit 1", LOCAL) as result:
        assert result.columns == [text]
        assert list(result.rows()) == [("bar",)]


CONDITIONS = [
    "foo = read_text('{folder}/canary.csv')",
    "foo in (select content from read_text('{folder}/canary.csv'))",
    "foo = 'bar') or exists (select * from duckdb_settings()",
    "foo = 'bar'); attach '{folder}/x.db'; select (1",
    "foo = 'bar') union select (1",
    "foo = 'bar' /*) */ or true) or (foo = 'bar'",
    "foo = getenv('PATH')",
    "foo = $1 or foo = '$1'",
    '"t0"."c0" = 1',
    "t0.c0 = 1",
    "p0 > 0",
    "broken0",
    "(select 1) = 1",
    "error('x') is null",
]


@pytest.mark.parametrize("sql", CONDITIONS)
def test_conditions_do_not_reach_it_either(lake: Lake, sql: str) -> None:
    folder = folder_of(lake)
    before, (table, _) = contents(folder), lake.find("tap.s")
    where, head = sql.format(folder=folder), table.snapshot()
    request, options = EraseRequest(table, where=where), EraseOptions("why", lease_wait_seconds=0)
    for asked in (
        lambda: change_selected(lake, table, Mode.DELETE, where, choice=LOCAL),
        lambda: erase(request, options, LOCAL),
        lambda: with_check(LOCAL, head, "c", where),
    ):
        with pytest.raises(SingerlakeError) as caught:
            asked()
        assert caught.value.exit_code in (2, 3), caught.value
        assert SECRET not in str(caught.value)
    with pytest.raises(OutsideError):  # as in a log that somebody has forged
        check_in_set(shape_of(head), {"c": Constraint("check", ["foo"], sql=where)})
    assert contents(folder) == before
