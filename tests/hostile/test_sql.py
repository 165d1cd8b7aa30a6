"""SQL that would read files, write, call Java, or tell what the process knows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import InvalidQueryError, NotFoundError
from singerlake.lake import Lake
from singerlake.sql.queries.query import query
from tests.build import commit_rows

SECRET = "canary-4711"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return hostile_lake(tmp_path_factory.mktemp("sql"))


def hostile_lake(folder: Path) -> Lake:
    """A lake beside files that nobody may read."""
    lake = Lake.open(str(folder / "lake"), create=True)
    rows = [{"id": n, "foo": "bar"} for n in range(3)]
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}, "foo": {"type": "string"}}, [], rows)
    (folder / "canary.csv").write_text(f"{SECRET}\n")
    (folder / "canary.json").write_text(json.dumps({"a": SECRET}))
    return lake


def folder_of(lake: Lake) -> Path:
    return Path(lake.store.uri).parent


def contents(folder: Path) -> dict[str, bytes]:
    """All files but what readers make: indexes, leases, staging."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    own = ("lake/index/", "lake/.staging/")
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.is_file() and not name.startswith(own) and "/leases/" not in name
    }


REFUSED = """
select * from csv.`{folder}/canary.csv`
select * from json.`file://{folder}/canary.json`
select * from text.`{folder}`
select * from binaryFile.`{folder}/canary.csv`
select * from orc.`{folder}`
select * from delta.`{folder}`
select * from image.`{folder}`
select * from jdbc.`x`
select * from `{folder}/canary.csv`
select * from tap.s where foo in (select * from csv.`{folder}/canary.csv`)
select (select max(_c0) from csv.`{folder}/canary.csv`) from tap.s
select * from tap.s s left join lateral (select * from csv.`{folder}/canary.csv`) c
select exists(select 1 from csv.`{folder}/canary.csv`)
with a as (with b as (select * from csv.`{folder}/canary.csv`) select * from b) select * from a
from csv.`{folder}/canary.csv` |> select *
from tap.s |> where foo in (table csv.`{folder}/canary.csv`)
table csv.`{folder}/canary.csv`
select * from spark_catalog.default.x
select * from global_temp.x
select * from system.information_schema.tables
select * from session.x
create table x using csv options (path '{folder}/canary.csv')
create or replace temporary view v using csv options (path '{folder}/canary.csv')
create view v as select 1
create table t2 using parquet location '{folder}/out' as select 1
create database d location '{folder}/out'
create function f as 'java.lang.System' using jar '{folder}/x.jar'
create function f() returns int return 1
create temporary function f as 'x.Y'
create temporary variable v = 1
declare v int default 1
set v = 1
set var v = 1
set
set spark.sql.variable.substitute = true
set time zone 'UTC'
reset
insert into tap.s values (1, 'x')
insert into csv.`{folder}/out` values (1)
insert overwrite local directory '{folder}/out' using csv select * from tap.s
insert overwrite directory 'file://{folder}/out' stored as textfile select 1
load data local inpath '{folder}/canary.csv' into table tap.s
merge into tap.s using tap.s as t on false when not matched then insert *
update tap.s set id = 1
delete from tap.s
truncate table tap.s
alter table tap.s add columns (x int)
alter table tap.s set location '{folder}'
drop table tap.s
drop view if exists x
undrop table tap.s
analyze table tap.s compute statistics
msck repair table tap.s
repair table tap.s
refresh table tap.s
refresh "{folder}"
cache table tap.s
uncache table tap.s
clear cache
add file '{folder}/canary.csv'
add jars '{folder}/x.jar'
add archive '{folder}/x.zip'
list files
list jars
show functions
show databases
show create table tap.s
show catalogs
describe function reflect
describe query select 1
explain extended select 1
grant select on tap.s to x
call system.x()
comment on table tap.s is 'x'
use catalog spark_catalog
begin declare x int; end
begin insert into tap.s values (1, 'x'); end
execute immediate 'insert into tap.s values (1)'
select transform(id, foo) using 'tee {folder}/out' as (a, b) from tap.s
select transform(*) row format delimited using '/bin/sh' from tap.s
map id using 'cat' as (x) from tap.s
reduce id using 'cat' as (x) from tap.s
select reflect('java.lang.System', 'getenv', 'HOME')
select REFLECT('java.lang.System', 'getenv')
select `reflect`('java.lang.System', 'getenv')
select system.builtin.reflect('java.lang.System', 'getenv')
select builtin.reflect('java.lang.System', 'getenv')
select java_method('java.lang.Runtime', 'getRuntime')
select * from tap.s lateral view reflect('a', 'b') x as y
select explode(array(try_reflect('java.lang.System', 'getenv', 'HOME')))
select transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))
select count(*) filter (where reflect('a', 'b') = '') from tap.s
select id from tap.s order by java_method('a', 'b')
select id from tap.s group by java_method('a', 'b')
select id from tap.s having java_method('a', 'b') = ''
select id from tap.s limit cast(reflect('a', 'b') as int)
select id from tap.s tablesample (reflect('a', 'b') rows)
select id from tap.s cluster by reflect('a', 'b')
select * from tap.s pivot (max(reflect('a', 'b')) for id in (1))
values (reflect('java.lang.System', 'getenv', 'HOME'))
select 1 /* */ from /* csv. */ csv.`{folder}/canary.csv` -- tap.s
select from_avro(foo, '{{}}') from tap.s
select input_file_name() from tap.s
select * from python_worker_logs()
select * from read_kafka('x')
select * from tap.s timestamp as of (select max(foo) from tap.s)
""".strip().splitlines()


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_and_nothing_is_touched(spark: SparkSession, lake: Lake, sql: str) -> None:
    folder = folder_of(lake)
    before = contents(folder)
    with pytest.raises((InvalidQueryError, NotFoundError)) as caught:
        list(query(spark, lake, sql.format(folder=folder)).rows())
    assert caught.value.exit_code in (2, 3)
    said = str(caught.value)
    assert SECRET not in said
    assert "\n" not in said
    assert "org.apache" not in said
    assert contents(folder) == before


@pytest.mark.parametrize(
    "sql",
    [
        "select '${{env:{name}}}'",
        "select '${{system:user.dir}}', '${{env:{name}}}'",
        "select '${{spark.sql.warehouse.dir}}', '${{hiveconf:{name}}}', '${{env:{name}}}'",
        "select `${{env:{name}}}` from (select 1 as `x`)",
        'select xpath_string(\'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{folder}/canary.csv">]>'
        "<a>&x;</a>', 'a')",
        'select from_xml(\'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{folder}/canary.csv">]>'
        "<a><b>&x;</b></a>', 'b string')",
    ],
)
def test_no_secret_of_the_process_or_the_disk_comes_out(
    spark: SparkSession, lake: Lake, sql: str
) -> None:
    # Java knows the environment that it was started with: PATH is in it, and in no lake.
    text = sql.format(name="PATH", folder=folder_of(lake))
    try:
        said = str(list(query(spark, lake, text).rows()))
    except (InvalidQueryError, NotFoundError) as error:
        said = str(error)
    assert SECRET not in said
    assert os.environ["PATH"] not in said
    assert str(Path.cwd()) not in said


def test_what_looks_like_a_variable_is_plain_text(spark: SparkSession, lake: Lake) -> None:
    answer = query(spark, lake, "select '${env:PATH}', '${spark.app.name}' from tap.s limit 1")
    assert list(answer.rows()) == [("${env:PATH}", "${spark.app.name}")]
