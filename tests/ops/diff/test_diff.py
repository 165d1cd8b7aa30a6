"""What differs between two states, against plain Python; and what is not read to find out."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import DamagedError, UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.diff.diff import Counts, Diff
from singerlake.ops.diff.table import DiffOptions, diff
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.overlay import alter, overlay_changes
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot import building
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows, retype
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import revert_on_spark as revert
from tests.frozen import vacuum_on_spark
from tests.histories.model import fold
from tests.histories.stores import FarStore, WatchedStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID: dict[str, Any] = {"id": {"type": "integer"}}
COLUMNS: dict[str, Any] = {
    "case": {"type": "integer"},
    "id": {"type": "integer"},
    "v": {"type": ["null", "number"]},
    "s": {"type": ["null", "string"]},
}
DELETED = {"_sdc_deleted_at": "2020-01-01T00:00:00Z"}
ROWS = st.fixed_dictionaries(
    {"id": st.integers(0, 4)},
    optional={
        "v": st.sampled_from([None, 1, 1.0, 2.5, -0.0, 0]),
        "s": st.sampled_from([None, "", "a", 'q"\n', "ä"]),
        "in_no_column": st.integers(0, 1),
        "_sdc_deleted_at": st.just(DELETED["_sdc_deleted_at"]),
    },
)
CASES = st.lists(
    st.tuples(*[st.lists(ROWS, min_size=1, max_size=6)] * 2), min_size=15, max_size=25
).filter(lambda cases: cases.count(cases[0]) < len(cases))
"""Hypothesis begins with the simplest example, one case again and again: not worth a job."""
FEW = settings(
    max_examples=1,
    deadline=None,
    # To look for a smaller failure takes Spark minutes; each case is small and told by its number.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Rows = list[tuple[Any, ...]]


@pytest.fixture(params=[pytest.param("one task", marks=pytest.mark.variant), "many tasks"])
def tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read in one task, those of all other tests here too; large ones in many."""
    if request.param == "many tasks":
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)


def compare(
    engine: EngineChoice,
    table: Table,
    before: str,
    after: str | None = None,
    on_type_mismatch: str = "fail",
) -> Diff[Any]:
    return diff(table, DiffOptions(before, after, on_type_mismatch), engine)


def taken(found: Diff[Any]) -> Rows:
    """The rows: what changed, by what it is known, the columns that differ, before, after."""
    with found:
        return list(found.rows().rows())


def counted(found: Diff[Any]) -> tuple[Counts, Rows]:
    with found:
        return found.counts(), list(found.rows().rows())


def texts(records: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    return {(one["case"], one["id"]): json.dumps(one) for one in records}


def columns_of(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record.get(name) for name in COLUMNS}


def expected(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> tuple[Counts, Rows]:
    """The same from the records of two states, one by one."""
    before, after = texts(old), texts(new)
    rows: Rows = []
    cells: Counter[str] = Counter()
    respelled = 0
    for key in sorted(before.keys() | after.keys()):
        one, other = (columns_of(json.loads(side.get(key, "{}"))) for side in (before, after))
        named = dict(zip(("case", "id"), key, strict=True))
        if key not in before:
            rows.append(("added", named, None, None, other))
        elif key not in after:
            rows.append(("removed", named, None, one, None))
        elif names := [name for name in COLUMNS if one[name] != other[name]]:
            rows.append(("changed", named, names, one, other))
            cells.update(names)
        elif before[key] != after[key]:
            respelled += 1
    kinds = Counter(row[0] for row in rows)
    unchanged = len(before) - kinds["changed"] - kinds["removed"]
    ordered = {name: cells[name] for name in COLUMNS if cells[name]}
    return Counts(
        kinds["added"], kinds["changed"], kinds["removed"], unchanged, respelled, ordered
    ), rows


@FEW
@given(cases=CASES, version=st.sampled_from([None, 1, 2]))
@pytest.mark.usefixtures("tasks")
def test_what_differs_is_what_a_plain_model_says(
    engine: EngineChoice,
    tmp_path_factory: pytest.TempPathFactory,
    cases: list[Any],
    version: int | None,
) -> None:
    """Many small tables in one, told apart by the first column of the key, forth and back.

    Behind an activation there are other rows than new ones to look at.
    """
    lake = Lake.open(str(tmp_path_factory.mktemp("lake") / "lake"), create=True)
    first, second = (
        [({"case": n, **row}, 1) for n, case in enumerate(cases) for row in case[side]]
        for side in (0, 1)
    )
    more: list[Any] = [*second] if version is None else [*second[::2], version, *second[1::2]]
    keys = ["case", "id"]
    commit_rows(lake, "tap.s", COLUMNS, keys, [*first], block_rows=10)
    commit_rows(lake, "tap.s", COLUMNS, keys, more, block_rows=7)
    table = lake.find("tap.s")[0]
    states = [fold([*first], keys), fold([*first, *more], keys)]
    assert counted(compare(engine, table, "@1")) == expected(*states)
    assert counted(compare(engine, table, "@2", "@1")) == expected(*states[::-1])


@FEW
@given(cases=CASES, activated=st.booleans())
def test_rows_without_a_key_are_known_by_their_records(
    engine: EngineChoice,
    tmp_path_factory: pytest.TempPathFactory,
    cases: list[Any],
    activated: bool,
) -> None:
    lake = Lake.open(str(tmp_path_factory.mktemp("lake") / "lake"), create=True)
    first, second = (
        [({"case": 0, **row}, side) for case in cases for row in case[side]] for side in (0, 1)
    )
    more: list[Any] = [*second, *([1] if activated else [])]
    commit_rows(lake, "tap.s", COLUMNS, [], [*first], block_rows=10)
    commit_rows(lake, "tap.s", COLUMNS, [], more, block_rows=7)
    table = lake.find("tap.s")[0]
    old, new = (
        Counter(json.dumps(record) for record in fold(messages, []))
        for messages in ([*first], [*first, *more])
    )
    for before, after, names in ((old, new, ("@1", "@2")), (new, old, ("@2", "@1"))):
        counts, rows = counted(compare(engine, table, *names))
        came, went = ([*(a - b).elements()] for a, b in ((after, before), (before, after)))
        assert (counts.added, counts.removed) == (len(came), len(went))
        assert (counts.changed, counts.respelled, counts.cells) == (0, 0, {})
        assert counts.unchanged == before.total() - len(went)
        for kind, records, side in (("added", came, 4), ("removed", went, 3)):
            shown = Counter((*row[side].values(),) for row in rows if row[0] == kind)
            assert shown == Counter((*columns_of(json.loads(one)).values(),) for one in records)
        assert all(row[2] is None for row in rows)


def shop(lake: Lake, rows: int = 200) -> Table:
    first: list[Any] = [{"id": n, "s": f"s{n}"} for n in range(rows)]
    commit_rows(lake, "tap.s", {**ID, "s": COLUMNS["s"]}, ["id"], first, block_rows=rows // 10)
    later: list[Any] = [{"id": 25, "s": "new"}, {"id": 26, **DELETED}, {"id": 27, "s": "s27"}]
    commit_rows(lake, "tap.s", {**ID, "s": COLUMNS["s"]}, ["id"], [*later, {"id": rows}])
    return lake.find("tap.s")[0]


def test_only_rows_that_may_differ_are_read(
    engine: EngineChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three old rows lie in one of ten blocks; what came lies in another."""
    monkeypatch.setattr(building, "LEAST_ROWS", 50)
    store = WatchedStore(tmp_path / "lake", tmp_path / "notes")
    table = shop(Lake(store))
    running = engine.engine_for(Work(), "this")
    building.ensure(running, table, table.snapshot().at(1))
    store.taken()
    with compare(engine, table, "@1") as found:
        found.keep()
        rows = list(found.rows().rows())
        blocks = {block.number: f"{block.file}:{block.offset}" for block in table.snapshot().blocks}
        numbers = {text: number for number, text in blocks.items()}
        read = {numbers[one.removeprefix(table.name.folder)] for one in store.taken()}
        assert read == {2, 11}
        assert [(row[0], row[1]["id"]) for row in rows] == [
            ("changed", 25),
            ("removed", 26),
            ("added", 200),
        ]
        counts = found.counts()
    assert (counts.unchanged, counts.respelled, counts.cells) == (198, 0, {"s": 1})
    # A layer on the first index, and the other way round.
    building.ensure(running, table, table.snapshot())
    assert [row[0] for row in taken(compare(engine, table, "@2", "@1"))] == [
        "changed",
        "added",
        "removed",
    ]


def test_a_store_that_takes_no_index(
    engine: EngineChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a lake that can only be read, keys are taken from the blocks."""
    near = LocalStore(tmp_path / "lake")
    table = shop(Lake(near))
    expected_rows = taken(compare(engine, table, "@1"))
    far = Table(FarStore(near), table.name)
    assert taken(compare(engine, far, "@1")) == expected_rows
    monkeypatch.setattr(building, "ensure_if_kept", lambda *_: None)
    for forth in (("@1", "@2"), ("@2", "@1")):
        counts, rows = counted(compare(engine, far, *forth))
        assert (len(rows), counts.changed, counts.unchanged) == (3, 1, 198)
    commit_rows(Lake(near), "tap.k", ID, [], [{"id": 1}, ({"id": 1}, 2)])
    commit_rows(Lake(near), "tap.k", ID, [], [({"id": 2}, 2), 2])
    keyless = Table(near, Lake(near).find("tap.k")[0].name)
    assert [(row[0], row[1]) for row in taken(compare(engine, keyless, "@1"))] == [
        ("removed", "1:0"),
        ("added", "2:0"),
    ]


def test_a_schema_that_changed_changes_no_row_by_itself(engine: EngineChoice, lake: Lake) -> None:
    """Both states are read as the second reads its rows."""
    old = {**ID, "v": {"type": "integer"}, "gone": {"type": "string"}}
    new = {**ID, "v": {"type": "string"}, "more": {"type": "integer"}}
    first: list[Any] = [{"id": n, "v": n, "gone": "x", "more": n} for n in range(4)]
    commit_rows(lake, "tap.s", old, ["id"], first)
    commit_rows(lake, "tap.s", new, ["id"], [{"id": 1, "v": "1"}, {"id": 2, "v": "9", "more": 2}])
    table = lake.find("tap.s")[0]
    # 1 only lost what is a column no more; 2 has a member that was no column then.
    assert taken(compare(engine, table, "@1")) == [
        (
            "changed",
            {"id": 2},
            ["v", "more"],
            {"id": 2, "v": "2", "more": None},
            {"id": 2, "v": "9", "more": 2},
        )
    ]
    rows = taken(compare(engine, table, "@2", "@1"))
    assert [(row[1]["id"], row[2]) for row in rows] == [(1, ["gone"]), (2, ["v", "gone"])]


def test_the_same_bytes_under_another_schema_may_read_otherwise(
    engine: EngineChoice, lake: Lake
) -> None:
    commit_rows(lake, "tap.s", ID, ["id"], ['{"id": 1, "more": 5}', '{"id": 2}'])
    more = {**ID, "more": {"type": "integer"}}
    commit_rows(lake, "tap.s", more, ["id"], [])
    commit_rows(lake, "tap.s", more, ["id"], ['{"id": 1, "more": 5}', '{"id": 2}'])
    (row,) = taken(compare(engine, lake.find("tap.s")[0], "@2", "@3"))
    assert (row[0], row[1], row[2]) == ("changed", {"id": 1}, ["more"])


def test_another_key(engine: EngineChoice, lake: Lake) -> None:
    """By the second state's key; of the first's rows with one such key the newest counts."""
    properties = {**ID, "s": {"type": "string"}}
    first: list[Any] = [{"id": 1, "s": "a"}, {"id": 1, "s": "b"}, {"id": 2, "s": "b"}]
    commit_rows(lake, "tap.s", properties, [], first)
    commit_rows(lake, "tap.s", properties, ["id"], [{"id": 2, "s": "c"}, {"id": 3, "s": "c"}])
    table = lake.find("tap.s")[0]
    counts, rows = counted(compare(engine, table, "@1"))
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("changed", {"id": 2}, ["s"]),
        ("added", {"id": 3}, None),
    ]
    assert counts.unchanged == 1
    # Back to no key: rows are told apart by where they lie.
    counts, rows = counted(compare(engine, table, "@2", "@1"))
    assert [(row[0], row[1]) for row in rows] == [
        ("added", "1:0"),
        ("added", "1:2"),
        ("removed", "2:0"),
        ("removed", "2:1"),
    ]
    assert counts.unchanged == 1
    # As text the same keys are found, and none that is not there.
    retype(lake.store, table.snapshot(), "id")
    counts, rows = counted(compare(engine, table, "@2"))
    assert (rows, counts.unchanged) == ([], 3)
    commit_rows(lake, "tap.s", {"s": {"type": "string"}}, [], [{"s": "z"}])
    with pytest.raises(UsageError, match="has no column 'id'"):
        compare(engine, table, "@4", "@2")


def test_columns_that_people_have_renamed(engine: EngineChoice, lake: Lake) -> None:
    table = shop(lake)
    for name, new in (("id", "nr"), ("s", "status")):
        head = table.snapshot()
        alter.alter(
            lake.store, head, lambda one, a=name, b=new: overlay_changes.with_name(one, a, b)
        )
    counts, rows = counted(compare(engine, table, "@1"))
    assert (counts.unchanged, counts.cells) == (198, {"status": 1})
    assert rows[0][1:3] == ({"nr": 25}, ["status"])
    assert counted(compare(engine, table, "@2"))[1] == []


def test_misfits(engine: EngineChoice, lake: Lake) -> None:
    properties = {**ID, "n": {"type": "integer"}, "s": {"type": "string"}}
    commit_rows(lake, "tap.s", properties, ["id"], ['{"id": 1, "n": 1}', '{"id": 2, "n": 2.5}'])
    commit_rows(lake, "tap.s", properties, ["id"], ['{"id": 1, "n": "x"}', '{"id": 3, "s": "s"}'])
    table = lake.find("tap.s")[0]
    found = compare(engine, table, "@1")
    with pytest.raises(DamagedError, match=r"(?s)'n'.*--on-type-mismatch null"):
        taken(found)
    found = compare(engine, table, "@1", on_type_mismatch="null")
    assert found.misfits == {"n": 1}
    assert [(row[1]["id"], row[3] and row[3]["n"]) for row in taken(found)] == [(1, 1), (3, None)]
    found = compare(engine, table, "@1", on_type_mismatch="text")
    assert [(row[2], row[3] and row[3]["n"], row[4]["n"]) for row in taken(found)] == [
        (["n"], "1", "x"),
        (None, None, None),
    ]
    with pytest.raises(UsageError, match="is none of fail, null, text"):
        compare(engine, table, "@1", on_type_mismatch="maybe")


def test_a_record_that_came_again_may_show_another_default(
    engine: EngineChoice, lake: Lake
) -> None:
    number: dict[str, Any] = {"type": ["null", "integer"]}
    for said in (
        partial(overlay_changes.with_column, name="c", schema=number, initial=0, default=5),
        partial(overlay_changes.with_default, name="c", default=7),
    ):
        head = commit_rows(lake, "tap.s", ID, ["id"], [{"id": 1}])
        alter.alter(lake.store, head, said)
    commit_rows(lake, "tap.s", ID, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]
    for before, after, shown in (("@2", "@3", [0, 5]), ("@3", "@5", [5, 7]), ("@4", "@3", [])):
        found = [row[3:] for row in taken(compare(engine, table, before, after))]
        assert [one["c"] for sides in found for one in sides] == shown


def test_states_that_a_vacuum_has_been_over(
    spark: SparkSession, engine: EngineChoice, lake: Lake
) -> None:
    """Rows keep their positions; a revert brings back what was there, which is no difference."""
    table = shop(lake)
    freeze(spark, table, at=1)
    expected_rows = taken(compare(engine, table, "1"))
    for n in range(3):
        rows: list[Any] = [{"id": i, "s": f"{n}"} for i in range(50, 60)]
        commit_rows(lake, "tap.s", {**ID, "s": COLUMNS["s"]}, ["id"], rows)
    options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, options)
    assert any(block.rewritten for block in table.snapshot().blocks)
    counts, rows_now = counted(compare(engine, table, "1"))
    assert [row for row in rows_now if not 50 <= row[1]["id"] < 60] == expected_rows
    assert counts.changed == 11
    revert(spark, table, 1)
    assert taken(compare(engine, table, "1")) == []


def test_a_vacuum_waits_for_who_compares(engine: EngineChoice, lake: Lake) -> None:
    table = shop(lake)
    found = compare(engine, table, "@1")
    assert len(list(lake.store.list(table.name.leases))) == 1
    found.close()
    assert list(lake.store.list(table.name.leases)) == []
    found.close()


def test_columns_that_only_differ_in_case_and_hold_dots(engine: EngineChoice, lake: Lake) -> None:
    properties = {"a.b": {"type": "integer"}, "A.b": {"type": "string"}, "before": {}, "change": {}}
    one, other = '{"a.b": 1, "A.b": "x", "change": [1]}', '{"a.b": 1, "A.b": "y", "change": [1]}'
    commit_rows(lake, "tap.s", properties, ["a.b"], [one])
    commit_rows(lake, "tap.s", properties, ["a.b"], [other])
    with compare(engine, lake.find("tap.s")[0], "@1") as found:
        (row,) = found.rows().rows()
        assert row[1:3] == ({"a.b": 1}, ["A.b"])
        assert row[4] == {"a.b": 1, "A.b": "y", "before": None, "change": "[1]"}
        flat = found.flat_rows()
        assert flat.columns == [
            *("change", "key.a.b", "changed", "before.A.b", "after.A.b"),
            *("before.before", "after.before", "before.change", "after.change"),
        ]
        assert list(flat.rows()) == [("changed", 1, ["A.b"], "x", "y", None, None, "[1]", "[1]")]
