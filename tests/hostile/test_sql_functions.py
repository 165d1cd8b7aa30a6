"""Functions of SQL that reach for files, addresses and classes by what they are given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import InvalidQueryError, SingerlakeError
from singerlake.lake import Lake
from singerlake.sql import functions as sql_functions
from singerlake.sql import plan as sql_plan
from singerlake.sql.queries.query import query
from tests.build import commit_rows

SECRET = "canary-4712"


class Listener:
    """Answers every request with the secret, and notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f"<!-- {SECRET} -->".encode())

            do_HEAD = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def listener(services: None) -> Iterator[Listener]:
    found = Listener()
    yield found
    found.server.shutdown()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, listener: Listener) -> Lake:
    """A table whose rows hold what a query would rather not have written out."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "canary.xsd").write_text(f"<{SECRET}/>")
    (folder / "canary.txt").write_text(SECRET)
    found = Lake.open(str(folder / "lake"), create=True)
    row = {
        "id": 1,
        "xml": f'<!DOCTYPE a SYSTEM "{listener.address}/planted"><a><b>1</b></a>',
        "option": "rowValidationXSDPath",
        "path": f"{listener.address}/planted.xsd",
    }
    names = {name: {"type": "string"} for name in ("xml", "option", "path")}
    commit_rows(found, "tap.s", {"id": {"type": "integer"}, **names}, [], [row])
    return found


def functions(spark: SparkSession, registry: str) -> set[str]:
    state = spark._jsparkSession.sessionState()  # type: ignore[union-attr]
    found = getattr(state, registry)().listFunction()
    return {found.apply(place).funcName() for place in range(found.size())}


def test_every_function_of_spark_was_looked_at(spark: SparkSession) -> None:
    own = spark.newSession()
    tables = functions(own, "tableFunctionRegistry")
    every = functions(own, "functionRegistry") | tables
    every |= {row[0] for row in own.sql("show functions").collect()}
    known = sql_functions.ALLOWED | sql_functions.TABLE_FUNCTIONS | set(sql_functions.REFUSED)
    assert every - known == set(), (
        "look at each of these, and name it in singerlake/sql/functions.py"
    )
    assert tables - sql_functions.TABLE_FUNCTIONS - set(sql_functions.REFUSED) == set()
    assert not sql_functions.ALLOWED & set(sql_functions.REFUSED)


@pytest.mark.parametrize(
    "parser", ["json.JSONOptions", "csv.CSVOptions", "xml.XmlOptions"], ids=str.lower
)
def test_every_option_of_a_parser_was_looked_at(spark: SparkSession, parser: str) -> None:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    name = f"org.apache.spark.sql.catalyst.{parser}$"
    options = jvm.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)
    every = set(options.getAllOptions().mkString(" ").split())
    assert len(every) > 20
    assert every - sql_functions.OPTIONS - set(sql_functions.REFUSED_OPTIONS) == set()
    assert not sql_functions.OPTIONS & set(sql_functions.REFUSED_OPTIONS)


def test_a_function_that_nobody_looked_at_is_refused(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_functions, "ALLOWED", sql_functions.ALLOWED - {"abs"})
    with pytest.raises(InvalidQueryError, match=r"abs\(\): it is not on the list"):
        query(spark, lake, "select abs(id) from tap.s")


SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {
                "name": "a",
                "type": "string",
                "nullable": True,
                "metadata": {"EXISTS_DEFAULT": "xpath_string('{xml}', 'a/b')"},
            }
        ],
    }
)
REFUSED = """
select from_xml('<a><b>1</b></a>', 'b string', map('{xsd}', '{url}/1'))
select from_xml('<a><b>1</b></a>', 'b string', map('ROWVALIDATIONXSDPATH', '{folder}/canary.xsd'))
select from_xml('<a><b>1</b></a>', 'b string', MAP('mode', 'FAILFAST', '{xsd}', '{url}/2'))
select schema_of_xml('<a><b>1</b></a>', map('{xsd}', '{url}/3'))
select from_xml('<a><b>1</b></a>', schema_of_xml('<a/>', map('{xsd}', '{url}/4')))
select from_xml(xml, 'b string', map(option, path)) from tap.s
select from_xml(xml, 'b string', map('{xsd}', path)) from tap.s
select from_xml('<a/>', 'b string', map(concat('rowValidationXSD', 'Path'), '{url}/5'))
select from_xml('<a/>', 'b string', map('mode', concat('FAIL', 'FAST')))
select from_xml('<a/>', 'b string', str_to_map('{xsd}:{url}/6'))
select from_xml('<a/>', 'b string', map_concat(map('{xsd}', '{url}/7')))
select from_xml('<a/>', 'b string', map_from_arrays(array('{xsd}'), array('{url}/8')))
select from_xml('<a/>', 'b string', from_json('{{}}', 'map<string,string>'))
select from_xml('<a/>', 'b string', m) from (select map('{xsd}', '{url}/9') as m)
select to_xml(named_struct('a', 1), map('{xsd}', '{url}/10'))
select transform(array('<a/>'), x -> from_xml(x, 'b string', map('{xsd}', '{url}/11')))
select 1 from tap.s lateral view explode(array(schema_of_xml('', map('{xsd}', '{url}/12')))) v
select * from tap.s where schema_of_xml('<a/>', map('{xsd}', '{url}/13')) = ''
select * from tap.s |> extend schema_of_xml('<a/>', map('{xsd}', '{url}/14')) as z
select * from range(length(schema_of_xml('<a/>', map('{xsd}', '{url}/15'))))
values (schema_of_xml('<a/>', map('{xsd}', '{url}/16')))
select from_xml(xmlStr => '<a/>', schema => 'b string', options => map('{xsd}', '{url}/17'))
select from_json('{{}}', 'a int', map('compression', 'java.lang.ProcessBuilder'))
select from_json('{{}}', 'a int', map('no such option', '1'))
select from_csv('1', 'a int', map('maxColumns', '2000000000'))
select from_csv('1', 'a int', map('codec', 'java.lang.ProcessBuilder'))
select to_csv(named_struct('a', 1), map('extension', 'x'))
select to_json(named_struct('a', 1), map(null, 'x'))
select from_json('{{}}', '{schema}')
select from_json('{{}}', '  {schema}')
select from_json('{{}}', concat('', '{schema}'))
select from_json('{{}}', xml) from tap.s
select from_csv('', '{schema}')
select from_xml('<a/>', '{schema}')
select variant_get(parse_json('{{}}'), '$', '{schema}')
select try_variant_get(parse_json('{{}}'), '$', '{schema}')
select variant_get(parse_json('{{}}'), path => '$', type => '{schema}')
select xpath_string(xml, 'a/b') from tap.s
select xpath('<!DOCTYPE a SYSTEM "{url}/18"><a><b>1</b></a>', 'a/b/text()')
select xpath_boolean('<!DOCTYPE a SYSTEM "{url}/19"><a><b>1</b></a>', 'a/b')
select XPath_Double('<!DOCTYPE a SYSTEM "{url}/20"><a><b>1</b></a>', 'a/b')
select `xpath_int`('<!DOCTYPE a SYSTEM "{url}/21"><a><b>1</b></a>', 'a/b')
select identifier('xpath_int')('<!DOCTYPE a SYSTEM "{url}/22"><a><b>1</b></a>', 'a/b')
select identifier('reflect')('java.lang.System', 'getenv', 'PATH')
select id from tap.s group by xpath_int(xml, 'a/b'), id
select listagg(path) within group (order by xpath_int(xml, 'a/b')) from tap.s
select row_number() over w from tap.s window w as (order by xpath_int(xml, 'a/b'))
select schema_of_avro('{{}}')
select from_protobuf(cast('' as binary), 'A', '{folder}/canary.txt')
select * from python_worker_logs()
select * from stream(tap.s)
select * from identifier('tap.s')
select * from identifier('csv.`{folder}/canary.txt`')
select current_user()
select user
select session_user, id from tap.s
select session.v
select system.session.v
select ?
select :a
execute immediate 'select 1'
begin select 1; end
""".strip().splitlines()


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_and_nothing_is_asked_for(
    spark: SparkSession, lake: Lake, listener: Listener, sql: str
) -> None:
    folder = Path(lake.store.uri).parent
    planted = f'<!DOCTYPE a SYSTEM "{listener.address}/default"><a><b>1</b></a>'
    schema = SCHEMA.replace("{xml}", planted.replace('"', "&quot;")).replace("'", "\\'")
    text = sql.format(
        url=listener.address, folder=folder, schema=schema, xsd="rowValidationXSDPath"
    )
    with pytest.raises(InvalidQueryError) as caught:
        list(query(spark, lake, text).rows())
    assert listener.asked == []
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


HARMLESS = [
    ("from_json('{\"a\": 1}', 'a int', map('mode', 'FAILFAST')).a", 1),
    ("from_json('{\"a\": 1}', schema_of_json('{\"a\": 1}')).a", 1),
    ("from_json('[1, 2]', 'array<int>')", [1, 2]),
    ("year(from_csv('02.01.2020', '`a b` date', map('dateFormat', 'dd.MM.yyyy')).`a b`)", 2020),
    ("from_xml('<a><b>1</b></a>', 'b int').b", 1),
    ("from_xml('<a><b>1</b></a>', schema_of_xml('<a><b>1</b></a>')).b", 1),
    ("to_json(named_struct('a', 1), map('ignoreNullFields', 'false'))", '{"a":1}'),
    ("to_csv(named_struct('a', 1))", "1"),
    ("variant_get(parse_json('{\"a\": 1}'), '$.a', 'int')", 1),
    ("parse_url('http://example.org/x', 'HOST')", "example.org"),
]


@pytest.mark.parametrize(("sql", "value"), HARMLESS)
def test_what_stays_within_the_values_is_allowed(
    spark: SparkSession, lake: Lake, sql: str, value: object
) -> None:
    assert list(query(spark, lake, f"select {sql}").rows()) == [(value,)]


@pytest.mark.parametrize(
    "sql",
    [
        "select from_xml(xml, 'b string') from tap.s",
        "select schema_of_xml('<!DOCTYPE a SYSTEM \"{url}/dtd\"><a><b>&x;</b></a>')",
        "select from_xml('<!DOCTYPE a [<!ENTITY x SYSTEM \"{url}/e\">]><a>&x;</a>', 'b string')",
        "select from_xml('<!DOCTYPE a [<!ENTITY % x SYSTEM \"{url}/p\"> %x;]><a/>', 'b string')",
        "select parse_url('{url}/url', 'HOST'), url_decode('{url}')",
    ],
)
def test_what_is_allowed_asks_for_nothing(
    spark: SparkSession, lake: Lake, listener: Listener, sql: str
) -> None:
    try:
        said = str(list(query(spark, lake, sql.format(url=listener.address)).rows()))
    except SingerlakeError as error:
        said = str(error)
    assert listener.asked == []
    assert SECRET not in said


def test_what_has_no_name_is_found_by_what_it_becomes(spark: SparkSession) -> None:
    plan = spark.sql("select xpath_string('<a/>', 'a'), current_user()")
    analyzed: Any = plan._jdf.queryExecution().analyzed()
    with pytest.raises(InvalidQueryError, match="xpath_string"):
        sql_plan.check_analyzed(analyzed)
