"""Projections in a file: every field, every mistake with its line, and the schema for editors."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish import declaration, places, spelling
from singerlake.publish.ad_hoc import AdHoc
from singerlake.publish.declaration import declared, read
from singerlake.publish.files import file_format
from singerlake.publish.projection import (
    Format,
    OnSchemaChange,
    OrderKey,
    PartitionKey,
    Projection,
    Transform,
)
from singerlake.storage.local.store import LocalStore
from singerlake.storage.options import StoreOptions
from tests.build import commit_rows

ALL = """\
# yaml-language-server: $schema=projections.schema.json
version: 1
destinations:
  warehouse:
    uri: s3://bucket/published/
    region: eu-central-1
    access_key_id: {env: WAREHOUSE_KEY}
    secret_access_key: {env: WAREHOUSE_SECRET}
    catalog:
      type: rest
      uri: https://catalog.example.com
      credential: {env: WAREHOUSE_SECRET}
projections:
- name: clean_orders
  sql: |
    select id, ordered_at, country
    from tap_shop.orders;
  stage: staging.orders
  key: id
- name: by_day
  from: staging.orders
  key: [id]
  order_by: [ordered_at desc, id]
  partition_by: country, month(ordered_at), bucket(16, `a, b`)
  to: out/by_day
  format: csv
  compression: gzip
  file_size: 64MB
  incremental: false
  versions: true
  keep: 2d
  on_schema_change: fail
- name: reports
  from: staging.orders.2
  destination: warehouse
  to: shop/reports
  format: iceberg
  table: shop.reports
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "projections.yml"


def reading(file: Path, text: str) -> list[Projection]:
    file.write_text(text, encoding="utf-8")
    return read(file)


def test_every_field_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE_KEY", "key")
    monkeypatch.delenv("WAREHOUSE_SECRET", raising=False)
    clean, by_day, reports = reading(file, ALL)
    assert clean == Projection(
        "clean_orders",
        "select id, ordered_at, country\nfrom tap_shop.orders",
        ("tap_shop.orders",),
        stage=TableName("staging", "orders"),
        key=("id",),
        where=f"{file}, line 14",
    )
    assert (by_day.sql, by_day.sources) == ("select * from staging.orders", ("staging.orders",))
    assert by_day.order_by == (OrderKey("ordered_at", True), OrderKey("id"))
    assert by_day.partition_by == (
        PartitionKey("country"),
        PartitionKey("ordered_at", Transform.MONTH),
        PartitionKey("a, b", Transform.BUCKET, 16),
    )
    assert (by_day.incremental, by_day.versions, by_day.keep) == (False, True, timedelta(days=2))
    assert by_day.on_schema_change is OnSchemaChange.FAIL
    target = by_day.target
    assert target is not None
    assert (target.uri, target.format) == (str(file.parent / "out" / "by_day"), Format.CSV)
    assert (target.compression, target.file_bytes) == ("gzip", 64_000_000)
    target.check_set()
    target = reports.target
    assert target is not None
    assert (target.uri, target.identifier) == ("s3://bucket/published/shop/reports", "shop.reports")
    assert target.options == StoreOptions("key", region="eu-central-1")
    assert target.catalog == {
        "type": "rest",
        "uri": "https://catalog.example.com",
        "credential": "",
    }
    with pytest.raises(UsageError, match="environment variable .*WAREHOUSE_SECRET"):
        target.check_set()


PROJECTION = "version: 1\nprojections:\n- name: a\n  from: x.y\n  to: out\n"
WRONG = [
    ("", "a file of projections is a mapping"),
    ("version: 1\n", "line 1: projections must be a list"),
    ("version: 1\nprojections: []\n", "line 2: projections must be a list"),
    (PROJECTION.replace("version: 1\n", ""), "line 1: write version: 1"),
    (PROJECTION.replace(" 1", " 2"), "line 1: write version: 1"),
    (PROJECTION + "destinatoins: {}\n", "line 6: a file of projections has no field"),
    (
        PROJECTION + "  ordr_by: x\n",
        "line 6: a projection has no field 'ordr_by': did you mean ord",
    ),
    (PROJECTION + "  name: b\n", "line 6, column 3: 'name' occurs twice"),
    (PROJECTION + "  key: &k id\n  order_by: *k\n", "line 7, column 13: aliases are not supported"),
    (PROJECTION + "  sql: select 1 from x.y\n", "line 3: a has both sql and from"),
    (PROJECTION.replace("  from: x.y\n", ""), "line 3: a has no sql"),
    (PROJECTION.replace("  to: out\n", ""), "line 3: a has neither stage nor to"),
    (PROJECTION.replace("name: a", "key: a"), "line 3: this projection has no name"),
    (PROJECTION.replace("name: a", "name: 7"), "line 3: name: 7 is not text"),
    (
        PROJECTION.replace("name: a", "name: a/b"),
        "line 3: name: 'a/b' is not a valid proj",
    ),
    (PROJECTION.replace("from: x.y", "from: orders"), "line 4: from of a: 'orders' is not a table"),
    (PROJECTION.replace("from: x.y", "sql: select 1"), "line 4: sql of a: the SQL reads no table"),
    (PROJECTION.replace("from: x.y", "sql: select 1 from y"), "y is not a table: write it as tap"),
    (PROJECTION.replace("to: out", "stage: orders"), "line 5: stage of a: 'orders' is not a table"),
    (PROJECTION.replace("to: out", "stage: x.y.1"), "line 5: stage of a: 'x.y.1' is a version"),
    (
        PROJECTION.replace("to: out", "stage: x.y\n  format: csv"),
        "line 6: format of a has no effect",
    ),
    (PROJECTION.replace("to: out", "to: s4://x"), "line 5: to of a: no store for s4://"),
    (PROJECTION.replace("to: out", "to: s3://"), "line 5: to of a: 's3://' names no bucket"),
    (PROJECTION + "  key: [id, id]\n", "line 6: key of a: 'id' occurs twice"),
    (PROJECTION + "  key: a,,b\n", "line 6: key of a: 'a,,b' lacks the name of a column"),
    (PROJECTION + "  order_by: [id, 3]\n", "line 6: order_by of a: 3 is not text"),
    (PROJECTION + "  order_by: id nulls first\n", "line 6: order_by of a: 'id nulls first': nulls"),
    (PROJECTION + "  partition_by: week(x)\n", "line 6: partition_by of a: there is no transform"),
    (PROJECTION + "  partition_by: bucket(x, 4)\n", "write buckets with their number first"),
    (PROJECTION + "  partition_by: bucket(0, x)\n", "write buckets with their number first"),
    (
        PROJECTION + "  format: parket\n",
        "line 6: format of a: 'parket' is not known: did you mean pa",
    ),
    (PROJECTION + "  compression: zip\n", "line 6: compression of a: 'zip' is not known: did you"),
    (PROJECTION + "  file_size: large\n", "line 6: file_size of a: 'large' is not a valid size"),
    (PROJECTION + "  keep: 2\n", "line 6: keep of a: it is '2': write it as a number and a unit"),
    (PROJECTION + "  versions: 'yes'\n", "line 6: versions of a: 'yes' is neither true nor false"),
    (PROJECTION + "  table: x.y\n", "line 6: table of a is for format: iceberg, and this is parq"),
    (
        PROJECTION + "  format: iceberg\n  table: x\n",
        "line 7: table of a: 'x' is not a table name",
    ),
    (
        PROJECTION + "  format: csv\n  compression: lz4\n",
        "line 7: csv files cannot be compressed",
    ),
    (PROJECTION + "  destination: w\n", "line 6: there is no destination 'w': write it in destin"),
    (PROJECTION + "destinations: []\n", "line 6: destinations is a mapping"),
    (PROJECTION + "destinations:\n  1: {uri: x}\n", "line 6: 1 is not text"),
    (PROJECTION + "destinations:\n  w: {}\n", "line 7: it has no uri"),
    (PROJECTION + "destinations:\n  w:\n    url: x\n", "line 8: a destination has no field 'url'"),
    (
        PROJECTION + "destinations:\n  w:\n    uri: x\n    session_token: abc\n",
        "line 7: session_token is a secret",
    ),
    (
        PROJECTION + "destinations:\n  w: {uri: x, catalog: {s3.secret-access-key: abc}}\n",
        "line 7: s3.secret-access-key is a secret",
    ),
    (
        PROJECTION + "destinations:\n  w: {uri: x, catalog: {uri: 'postgresql://u:pw@host/db'}}\n",
        "line 7: uri is a secret",
    ),
    (
        PROJECTION + "destinations:\n  w: {uri: x, profile: {evn: P}}\n",
        "line 7: profile has evn: did you mean env?",
    ),
    (PROJECTION.replace("to: out", "to: s3://me:abc@bucket/x"), "line 5: to of a: the location ho"),
    (
        PROJECTION + "destinations:\n  w: {uri: 's3://me:abc@bucket'}\n",
        "line 7: the location holds a secret",
    ),
    (
        PROJECTION.replace("out", "../x") + "  destination: w\ndestinations: {w: {uri: x}}\n",
        "line 5: to of a: '../x' is not a folder within the destination",
    ),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_told_with_its_line(file: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        reading(file, text)
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(file))
    assert "\n" not in message
    assert "abc" not in message


def test_folders_begin_where_the_file_lies(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (one,) = reading(file, PROJECTION)
    assert one.target is not None
    assert one.target.uri == str(tmp_path / "out")
    (one,) = reading(
        file, PROJECTION.replace("to: out", "destination: w") + "destinations: {w: {uri: d}}"
    )
    assert one.target is not None
    assert one.target.uri == str(tmp_path / "d" / "a")
    (one,) = reading(file, PROJECTION.replace("to: out", "to: /srv/out"))
    assert one.target is not None
    assert one.target.uri == "/srv/out"


def test_a_table_is_named_as_in_sql_or_as_on_the_command_line() -> None:
    assert spelling.select_all("tap_shop.orders.2") == "select * from tap_shop.orders.2"
    assert spelling.select_all("tap-shop.orders.@3") == "select * from `tap-shop`.orders.`@3`"
    text = "tap_shop.orders version as of 'may'"
    assert spelling.select_all(text) == "select * from tap_shop.orders VERSION AS OF 'may'"


def test_what_is_declared_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.delenv(declaration.SETTING, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match=r"there is no .*projections.yml"):
        declared()
    setting: Any = [{"name": "a", "from": "x.y", "to": "out"}]
    monkeypatch.setenv(declaration.SETTING, json.dumps(setting))
    (one,) = declared()
    assert (one.name, one.where) == (
        "a",
        "the setting projections (SINGERLAKE_PROJECTIONS), projections[0]",
    )
    monkeypatch.setenv(declaration.SETTING, json.dumps({"projections": setting}))
    assert declared() == [one]
    setting[0]["kee"] = "1d"
    monkeypatch.setenv(declaration.SETTING, json.dumps(setting))
    with pytest.raises(UsageError, match=r"projections\[0\].kee: .* did you mean keep"):
        declared()
    monkeypatch.setenv(declaration.SETTING, "{")
    with pytest.raises(UsageError, match="is not valid JSON"):
        declared()
    (tmp_path / "projections.yml").write_text(PROJECTION)
    with pytest.raises(UsageError, match="declared twice"):
        declared()
    assert [one.name for one in declared(tmp_path / "projections.yml")] == ["a"]
    monkeypatch.setenv(declaration.SETTING, "")
    monkeypatch.chdir("/")
    monkeypatch.setenv("MELTANO_PROJECT_ROOT", str(tmp_path))
    assert [one.name for one in declared()] == ["a"]


def test_meltano_takes_objects_in_settings_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_on = {  # by `meltano invoke`, for an object in meltano.yml
        "destinations.w.uri": "s3://b/p",
        "destinations.w.region": "eu",
        "destinations.w.session_token.env": "SESSION",
        "destinations.w.catalog.s3.region": "eu",
        "destinations.w.catalog.token.env": "SESSION",
        "projections": [{"name": "a", "from": "x.y", "destination": "w", "format": "iceberg"}],
    }
    monkeypatch.setenv(declaration.SETTING, json.dumps(handed_on))
    monkeypatch.setenv("SESSION", "a token")
    monkeypatch.setenv("MELTANO_PROJECT_ROOT", "/none")
    (one,) = declared()
    assert one.target is not None
    assert one.target.uri == "s3://b/p/a"
    assert one.target.options == StoreOptions(session_token="a token", region="eu")
    assert one.target.catalog == {"s3.region": "eu", "token": "a token"}
    handed_on["destinations.w.reigon"] = "eu"
    monkeypatch.setenv(declaration.SETTING, json.dumps(handed_on))
    with pytest.raises(UsageError, match=r"no field 'destinations.w.reigon'"):
        declared()


# The schema for editors.

SCHEMA: dict[str, Any] = json.loads(declaration.SCHEMA.read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_has_the_fields_of_the_reader() -> None:
    VALID.check_schema(SCHEMA)
    fields = SCHEMA["$defs"]["projection"]["properties"]
    assert list(fields) == list(declaration.FIELDS)
    assert list(SCHEMA["properties"]) == list(declaration.TOP)
    assert list(SCHEMA["$defs"]["destination"]["properties"]) == list(places.FIELDS)
    assert fields["format"]["enum"] == [*map(str, Format)]
    assert fields["on_schema_change"]["enum"] == [*map(str, OnSchemaChange)]
    assert fields["compression"]["enum"] == list(declaration.ALL_COMPRESSIONS)
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    read = {name: declaration.FIELDS[name](value) for name, value in defaults.items()}
    usual = Projection("a", "")
    assert read.pop("format") is Format.PARQUET
    assert read.pop("file_size") == declaration.DEFAULT_FILE_BYTES
    assert read == {name: getattr(usual, name) for name in read}


@pytest.mark.parametrize("form", Format)
def test_the_compressions_are_those_of_the_files(form: Format) -> None:
    assert {*file_format(form).compressions} == {*declaration.COMPRESSIONS[form]}


def test_the_schema_takes_what_the_reader_takes() -> None:
    assert not [*VALID.iter_errors(yaml.safe_load(ALL))]


NAME = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,5}\Z")
COLUMN = st.sampled_from(["id", "ordered_at", "`a, b`", "größe", "order-no"])
PARTITION = st.sampled_from(["month(id)", "bucket(4, x)", "country", "day(`a b`)"])
TABLE = st.sampled_from(["tap_shop.orders", "tap-shop.orders", "a.b.2", "x.`y z`"])


def some(one: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return one | st.lists(one, max_size=3, unique_by=lambda text: text.split()[0])


FIELDS = {
    "key": some(COLUMN),
    "order_by": some(st.builds("{}{}".format, COLUMN, st.sampled_from(["", " desc", " ASC"]))),
    "partition_by": some(PARTITION),
    "compression": st.just("none"),
    "file_size": st.integers(1, 10**15 - 1) | st.from_regex(r"\A[1-9][0-9]{0,14} ?([kMGT]i?)?B?\Z"),
    "incremental": st.booleans(),
    "versions": st.booleans(),
    "keep": st.from_regex(r"\A[1-9][0-9]{0,5} ?(min|m|h|d|w)\Z"),
    "on_schema_change": st.sampled_from(["evolve", "fail"]),
}
PLACE = st.fixed_dictionaries(
    {"uri": st.sampled_from(["s3://b", "s3://b/p/", "gs://b/p", "az://c", "out", "/srv/out"])},
    optional={
        **{name: st.just({"env": "HOME"}) for name in places.OPTIONS},
        "requester_pays": st.booleans(),
        "gcs_anonymous": st.booleans(),
        "azure_anonymous": st.booleans(),
        "connect_timeout": st.integers(1, 60) | st.floats(0.5, 60),
        "read_timeout": st.integers(1, 60),
        "max_attempts": st.integers(1, 9),
        "catalog": st.dictionaries(
            st.sampled_from(["type", "warehouse", "token"]), st.just({"env": "HOME"})
        ),
    },
)


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Documents by the schema, with texts that mean what their fields are for."""
    named = draw(st.dictionaries(NAME, PLACE, max_size=2))
    listed = []
    for name in draw(st.lists(NAME, min_size=1, max_size=3)):
        one: dict[str, Any] = {"name": name}
        source = draw(st.sampled_from(["sql", "from"]))
        table = draw(TABLE)
        one[source] = table if source == "from" else "select 1 from a.b"
        if draw(st.booleans()):
            one["stage"] = draw(st.sampled_from(["staging.orders", "st-aging.x y"]))
        if "stage" not in one or draw(st.booleans()):
            one["to"] = "some/folder"
            one["format"] = draw(st.sampled_from([*map(str, Format)]))
            if named and draw(st.booleans()):
                one["destination"] = draw(st.sampled_from(sorted(named)))
            if one["format"] == "iceberg" and draw(st.booleans()):
                one["table"] = "namespace.table"
        fields = draw(st.sets(st.sampled_from(sorted(FIELDS))))
        if "to" not in one:
            fields -= {"compression", "file_size"}
        listed.append({**one, **{field: draw(FIELDS[field]) for field in sorted(fields)}})
    return {"version": 1, "destinations": named, "projections": listed}


@settings(max_examples=60, deadline=None)
@given(documents(), st.data())
def test_what_the_schema_takes_the_reader_takes(
    tmp_path_factory: pytest.TempPathFactory, document: Any, data: st.DataObject
) -> None:
    assert not [*VALID.iter_errors(document)]
    file = tmp_path_factory.getbasetemp() / "projections.yml"
    found = reading(file, json.dumps(document, indent=1))
    assert [one.name for one in found] == [one["name"] for one in document["projections"]]
    # And one of another shape neither takes.
    one = data.draw(st.sampled_from(document["projections"]))
    field = data.draw(st.sampled_from(sorted({*declaration.FIELDS, "unknown"})))
    one[field] = data.draw(st.sampled_from([{}, 1.5, {"x": 1}]))
    if [*VALID.iter_errors(document)]:
        with pytest.raises(SingerlakeError, match=r"line \d+"):
            reading(file, json.dumps(document, indent=1))


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*declaration.TOP, *declaration.FIELDS, *places.FIELDS, "env"],
            )
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(ODD, ODD, ODD)
def test_any_document_is_read_or_told_to_be_wrong(
    tmp_path_factory: pytest.TempPathFactory, top: Any, place: Any, one: Any
) -> None:
    whole = {"version": 1, "destinations": {"w": place}, "projections": [one]}
    named = {"name": "a", "from": "x.y", "to": "out", **(one if isinstance(one, dict) else {})}
    good = {"version": 1, "projections": [named]}
    file = tmp_path_factory.getbasetemp() / "projections.yml"
    for document in (top, whole, good):
        with suppress(SingerlakeError):
            reading(file, yaml.safe_dump(document))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_told_to_be_wrong(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    with suppress(SingerlakeError, UnicodeEncodeError):
        reading(tmp_path_factory.getbasetemp() / "projections.yml", text)


def test_a_place_has_one_name_whatever_way_was_written(tmp_path: Path) -> None:
    elsewhere = tmp_path / "far" / "away"
    elsewhere.mkdir(parents=True)
    (tmp_path / "link").symlink_to(elsewhere)
    for written, named in (
        ("out", "out"),
        ("none/../out", "out"),
        ("a/./b/../../out", "out"),
        ("link/out", "link/out"),
        ("link/x/../out", "link/out"),
        # It is the folder above the one that the link points to, as it is for the system.
        ("link/../out", "far/out"),
        ("link/../../out", "out"),
    ):
        assert places.location(written, tmp_path) == str(tmp_path / named), written
    assert places.location("/../x", tmp_path) == "/x"


def test_ad_hoc_takes_the_key_of_the_table(tmp_path: Path) -> None:
    lake = Lake(LocalStore(tmp_path / "lake"))
    nested = {"type": "object", "properties": {"a": {"type": "integer"}}}
    columns: dict[str, Any] = {"b": {"type": "integer"}, "a": {"type": "string"}, "n": nested}
    for name, key in (("t.two", ["a", "b"]), ("t.none", []), ("t.nested", ["a", "n"])):
        commit_rows(lake, name, columns, key, [{"a": "x", "b": 1, "n": {"a": 1}}])
    for said, wanted in (
        (AdHoc(to="out", table="t.two"), ("a", "b")),
        (AdHoc(to="out", table="t.two.@1", where="b in (select b from t.none)"), ("a", "b")),
        (AdHoc(to="out", table="t.two", key="b"), ("b",)),
        (AdHoc(to="out", sql="select * from t.two"), ()),
        (AdHoc(to="out", table="t.none"), ()),
        (AdHoc(to="out", table="t.nested"), ()),  # which has no order
    ):
        assert said.projection(lake).key == wanted, said
    commit_rows(lake, "tap-x.a-b", columns, ["b"], [{"b": 1}])
    for table, sql in (
        ("tap-x.a-b", "select * from `tap-x`.`a-b`"),
        ("tap_x.a_b", "select * from `tap-x`.`a-b`"),
        ("tap_x.A_B.@1", "select * from `tap-x`.`a-b`.`@1`"),
        ("tap_x.a_b version as of 1", "select * from `tap-x`.`a-b` VERSION AS OF '1'"),
    ):
        projection = AdHoc(to="out", table=table, key="b").projection(lake)
        assert (projection.sql, projection.sources) == (sql, (sql[len("select * from ") :],))
    with pytest.raises(NotFoundError, match="did you mean"):
        AdHoc(to="out", table="t.twi").projection(lake)
