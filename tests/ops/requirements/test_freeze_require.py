"""``freeze --require``: all conditions are checked, and one that is not met leaves no version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake import api
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import RequirementsError, UsageError
from singerlake.format import times
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import FreezeOptions, Frozen, freeze
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
from singerlake.ops.requirements import check
from singerlake.rows.state import parquet_parts
from singerlake.snapshot import building
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.needs import MORE

HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "weight": {"type": ["null", "number"]},
    "name": {"type": ["null", "string"]},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
    "paid": {"type": ["null", "boolean"]},
}
BIG = 9_223_372_036_854_775_807


def record(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "total": number / 4 if number % 5 else None,
        "weight": number * 1.5,
        "name": f"n{number % 7}",
        "day": f"2026-01-{number % 28 + 1:02}",
        "at": f"2026-01-02T03:04:{number % 60:02}Z" if number else None,
        "tags": ["a", str(number % 3)],
        "paid": number % 2 == 0,
        **more,
    }


def filled(lake: Lake, numbers: Iterable[int] = range(100), **more: Any) -> Table:
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [record(n, **more) for n in numbers], block_rows=30)
    return lake.find("tap.s")[0]


def required(table: Table, *texts: str, choice: EngineChoice = HERE, **more: Any) -> Frozen:
    return freeze(table, FreezeOptions(require=texts, **more), choice)


def refused(table: Table, *texts: str, choice: EngineChoice = HERE) -> list[str]:
    """Freeze, which must fail and leave the table as it was; return the lines between."""
    before = table.snapshot().number
    with pytest.raises(RequirementsError) as error:
        required(table, *texts, choice=choice)
    assert table.snapshot().number == before
    assert error.value.exit_code == 4
    head, where, *lines, last = error.value.lines
    assert head.endswith("not met, and nothing was frozen:")
    assert where == f"tap.s at transaction {before}:"
    assert last == "correct the rows or the requirement, then freeze again"
    return [line.strip() for line in lines]


MET = [
    "rows = 100",
    "nulls(total) = 20",
    "nulls(total) <= 20%",
    "nulls(at) = 1",
    "distinct(name) = 7",
    "distinct(name) < 10%",
    "distinct(total) = 80",
    "distinct(tags) = 3",
    "distinct(paid) = 2",
    "min(id) = 0",
    "max(id) = 99",
    "sum(id) = 4950",
    "min(total) = 0.25",
    "max(total) = 24.75",
    "sum(total) = 1000",
    "sum(weight) = 7425",
    "max(weight) = 148.5",
    "min(name) = 'n0'",
    "max(name) < 'n7'",
    "max(day) = '2026-01-28'",
    "min(at) = '2026-01-02T03:04:00Z'",
    "freshness < 1h",
    "schema unchanged",
]
UNMET = [
    ("rows > 100", "found 100"),
    ("nulls(total) < 20%", "found 20.00 % (20 of 100 rows)"),
    ("nulls(total) = 0", "found 20"),
    ("distinct(name) = 8", "found 7"),
    ("distinct(name) > 7%", "found 7.00 % (7 of 100 rows)"),
    ("max(id) > 99", "found 99"),
    ("sum(total) > 1000", "found 1,000.00"),
    ("sum(weight) < 0", "found 7,425.0"),
    ("max(name) = 'x'", "found 'n6'"),
    ("max(day) < '2026-01-02'", "found 2026-01-28"),
    ("max(at) < '2026-01-02'", "found 2026-01-02T03:04:59.000000Z"),
]


def test_freeze_keeps_the_requirements_that_were_met(lake: Lake, engine: EngineChoice) -> None:
    done = required(filled(lake), *MET, choice=engine)
    assert done.new
    assert done.version.requirements == MET
    (there,) = lake.find("tap.s")[0].versions()
    assert there == done.version


def test_freeze_lists_all_requirements_that_are_not_met(lake: Lake, engine: EngineChoice) -> None:
    texts = [text for text, _ in UNMET]
    lines = refused(filled(lake), "rows > 0", *texts, "min(id) = 0", choice=engine)
    assert lines == [f"{text}: {found}" for text, found in UNMET]


def test_freeze_compares_with_the_version_before(lake: Lake, engine: EngineChoice) -> None:
    table = filled(lake)
    first = ["inserted > 5", "deleted < 5%", "updated = 7", "unchanged > 1"]
    assert required(table, *first, choice=engine).version.number == 1, "there is none before"
    filled(lake, range(95, 110), name="other")
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [record(3, _sdc_deleted_at="2026-01-01T00:00:00Z")])
    assert refused(
        table,
        "inserted < 10%",
        "updated = 0",
        "deleted < 1%",
        "unchanged > 94%",
        "deleted = 1",
        choice=engine,
    ) == [
        "inserted < 10%: found 10.00 % (10 of 100 rows)",
        "updated = 0: found 5",
        "deleted < 1%: found 1.00 % (1 of 100 rows)",
        "unchanged > 94%: found 94.00 % (94 of 100 rows)",
    ]
    met = ["inserted <= 10%", "updated = 5", "deleted = 1", "unchanged >= 94%"]
    assert required(table, *met, choice=engine).version.number == 2


def test_freeze_finds_a_changed_schema(lake: Lake) -> None:
    table = filled(lake)
    assert required(table, "schema unchanged").new
    columns = {**COLUMNS, "more": {"type": ["null", "string"]}}
    commit_rows(lake, "tap.s", columns, ["id"], [record(5)])
    assert refused(table, "schema unchanged") == [
        "schema unchanged: column 'more' was added (string)"
    ]


def test_freeze_checks_an_unchanged_table_too(lake: Lake) -> None:
    table = filled(lake)
    first = freeze(table, FreezeOptions(label="q1"), HERE)
    again = required(table, "rows = 100", label="q1")
    assert (again.new, again.version) == (False, first.version)
    assert refused(table, "rows > 100") == ["rows > 100: found 100"]
    (there,) = table.versions()
    assert there == first.version, "a version never changes"


def test_freeze_measures_the_snapshot_of_its_transaction(lake: Lake) -> None:
    table = filled(lake, range(10))
    filled(lake, range(20))
    assert required(table, "rows = 10", at=1).version.rows == 10
    filled(lake, range(30))
    assert required(table, "rows = 30", "inserted = 20").version.number == 2


def test_freshness_is_the_age_of_the_newest_record(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(lake)
    freeze(table, FreezeOptions(label="a"), HERE)  # another transaction, and no record
    now = times.now() + timedelta(hours=5, minutes=1)
    monkeypatch.setattr(check.times, "now", lambda: now)
    assert refused(table, "freshness < 3h", "freshness < 6h") == ["freshness < 3h: found 5 hours"]


def test_sums_are_exact_beyond_64_bits(lake: Lake, engine: EngineChoice) -> None:
    columns = {
        "id": {"type": "integer"},
        "big": {"type": "integer"},
        "digits": {"type": "number", "multipleOf": 1e-10},
    }
    large = "1234567890123456789012345678.0123456789"
    rows = [f'{{"id": {n}, "big": {BIG}, "digits": {large}}}' for n in range(3)]
    commit_rows(lake, "tap.s", columns, ["id"], rows, block_rows=1)
    total = "3703703670370370367037037034.0370370367"
    done = required(
        lake.find("tap.s")[0], f"sum(big) = {3 * BIG}", f"sum(digits) = {total}", choice=engine
    )
    assert done.new


def test_measures_of_no_value(lake: Lake) -> None:
    columns = {"id": {"type": "integer"}, "n": {"type": ["null", "number"]}}
    commit_rows(lake, "tap.s", columns, ["id"], [{"id": 1, "n": None}])
    table = lake.find("tap.s")[0]
    assert refused(table, "max(n) < 5", "sum(n) = 0", "distinct(n) = 0", "nulls(n) < 100%") == [
        "max(n) < 5: found no value",
        "nulls(n) < 100%: found 100.00 % (1 of 1 row)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nulls(tota) = 0", "names a column that tap.s does not have: did you mean total?"),
        ("sum(name) > 1", "needs a column that has a sum: name of tap.s is string"),
        ("max(tags) > 1", "needs a column that has a max: tags of tap.s is list<string>"),
        ("min(paid) > 1", "needs a column that has a min"),
        ("max(at) > 5", "compares max(at) with a value of another type"),
        ("max(day) > 'x'", "write '2026-11-20'"),
    ],
)
def test_freeze_refuses_a_requirement_that_the_table_cannot_have(
    lake: Lake, text: str, message: str
) -> None:
    table = filled(lake, range(5))
    with pytest.raises(UsageError) as error:
        required(table, text)
    assert message in str(error.value)
    assert table.versions() == []


def test_simple_statement_runs_in_this_process(lake: Lake) -> None:
    table = filled(lake, range(5))
    filled(lake, [7])
    met = "sql: select id from tap.s where id > 4"
    assert required(table, met, at=1).version.requirements == [met]
    assert refused(table, met) == [f"{met}: the statement returns a row, and must return none"]


def test_other_statement_is_refused_where_only_this_process_may_run(lake: Lake) -> None:
    table = filled(lake, range(5))
    with pytest.raises(UsageError, match="needs Spark: use the engine auto or spark"):
        required(table, "sql: select upper(name) from tap.s")
    assert table.versions() == []


@pytest.mark.usefixtures("each_operation")
def test_statement_must_return_no_row(lake: Lake, spark: Any) -> None:
    choice = EngineChoice.of(spark=spark)
    table = filled(lake, range(5))
    commit_rows(lake, "tap.t", COLUMNS, ["id"], [record(1)])
    filled(lake, [7])
    met = "sql: select id from tap.s where id > 4"
    assert required(table, met, choice=choice, at=1).version.requirements == [met]
    bad = "sql: select s.id from tap.s s join tap.t t on s.id = t.id"
    assert refused(table, bad, choice=choice) == [
        f"{bad}: the statement returns a row, and must return none"
    ]
    every = LakeFreezeOptions(require=["rows > 0", bad])
    with pytest.raises(RequirementsError) as error:
        freeze_lake(lake, plan(lake, lake.tables, every), every, choice)
    assert error.value.lines[1] == "the tables together:"
    assert len(lake.lake_versions()) == 0


def test_lake_is_frozen_whole_or_not_at_all(lake: Lake) -> None:
    filled(lake, range(5))
    commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    options = LakeFreezeOptions(require=["rows > 1", "min(id) >= 0"])
    with pytest.raises(RequirementsError) as error:
        freeze_lake(lake, plan(lake, lake.tables, options), options, HERE)
    assert error.value.lines[1:3] == ("tap.t at transaction 1:", "  rows > 1: found 1")
    assert [table.versions() for table in map(lake.table, lake.tables())] == [[], []]
    less = LakeFreezeOptions(require=["rows > 0"])
    done = freeze_lake(lake, plan(lake, lake.tables, less), less, HERE)
    assert done.new
    assert [version.requirements for version in done.tables.values()] == [["rows > 0"]] * 2
    with pytest.raises(RequirementsError):  # though all tables have versions already
        freeze_lake(lake, plan(lake, lake.tables, options), options, HERE)


def test_python_and_the_command_require_alike(lake: Lake) -> None:
    filled(lake, range(5))
    table = api.Lake(lake.store)["tap.s"]
    with pytest.raises(RequirementsError, match="1 requirement is not met"):
        table.freeze(require=["rows > 5", "rows > 0"], engine="local")
    failed = run(lake, "freeze", "tap.s", "--require", "rows > 5", "--engine", "local")
    assert (failed.exit_code, failed.stdout) == (4, "")
    assert "  rows > 5: found 5\n" in failed.stderr
    whole = run(lake, "freeze", "--all", "--require", "rows > 5", "--engine", "local")
    assert whole.exit_code == 4
    assert "  rows > 5: found 5\n" in whole.stderr
    kind = run(lake, "--output", "json", "freeze", "tap.s", "--require", "rows > 5")
    assert json.loads(kind.stderr)["error"]["kind"] == "requirements"
    done = run_json(lake, "freeze", "tap.s", "--require", "rows > 0", "--engine", "local")
    assert done["requirements"] == ["rows > 0"]
    version = api.Lake(lake.store).freeze(require=["rows = 5"], engine="local")
    assert version.number == 1


VALUES = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.decimals(-(10**20), 10**20, places=2),
        st.none() | st.text(st.characters(blacklist_categories=["Cs"]), max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=8, deadline=None)
@given(rows=VALUES, layered=st.booleans())
def test_measures_are_those_of_the_values(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], layered: bool
) -> None:
    _measures_agree(tmp_path_factory, rows, HERE, layered=layered)


@MORE
@settings(max_examples=8, deadline=None)
@given(rows=VALUES)
def test_measures_are_those_of_the_values_on_spark(
    tmp_path_factory: pytest.TempPathFactory, spark: Any, rows: list[tuple[Any, ...]]
) -> None:
    _measures_agree(tmp_path_factory, rows, EngineChoice.of(spark=spark), layered=False)


def spelled(number: Any) -> str:
    return "null" if number is None else f"{Decimal(number):f}"


def _measures_agree(
    folders: pytest.TempPathFactory,
    rows: list[tuple[Any, ...]],
    choice: EngineChoice,
    *,
    layered: bool,
) -> None:
    lake = Lake.open(str(folders.mktemp("measures")), create=True)
    columns = {
        "id": {"type": "integer"},
        "i": {"type": ["null", "integer"]},
        "d": {"type": ["null", "number"], "multipleOf": 0.01},
        "t": {"type": ["null", "string"]},
    }
    texts = [
        f'{{"id": {n}, "i": {json.dumps(i)}, "d": {spelled(d)}, "t": {json.dumps(t)}}}'
        for n, (i, d, t) in enumerate(rows)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_parts, "ROW_GROUP", 4)
        patch.setattr(building, "LEAST_ROWS", 2)
        for some in (texts[:20], texts[20:]) if layered else (texts,):
            if some:
                commit_rows(lake, "tap.s", columns, ["id"], some, block_rows=3)
                freeze(lake.find("tap.s")[0], FreezeOptions(), choice)
        wanted = [f"rows = {len(rows)}"]
        for at, name in enumerate(("i", "d", "t")):
            values = [row[at] for row in rows if row[at] is not None]
            wanted += [f"nulls({name}) = {len(rows) - len(values)}"]
            wanted += [f"distinct({name}) = {len({*values})}"]
            if values and name != "t":
                wanted += [f"min({name}) = {spelled(min(values))}"]
                wanted += [f"sum({name}) = {spelled(sum(values))}"]
        required(lake.find("tap.s")[0], *wanted, choice=choice, again=True)
