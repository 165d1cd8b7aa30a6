"""What erases rows: this process or Spark, which leave the same; and what only Spark does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest

import singerlake
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.log import notices
from singerlake.ops.erase.plan import Erased
from singerlake.ops.freeze import FreezeOptions, FreezePlan, commit_version, freeze
from singerlake.ops.publish.publish import publish
from singerlake.ops.verify.verify import verify
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import alter
from singerlake.publish import registry
from singerlake.publish.declaration import declared
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.blocks import block_tasks
from singerlake.rows.changes import row_ids
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks
from singerlake.sql.local import duck
from singerlake.sql.local.outside import OutsideError
from tests.build import commit_rows
from tests.cli.call import run
from tests.erasing import WHY, erase
from tests.frozen import on
from tests.histories import here
from tests.needs import MORE
from tests.ops.rows_back.histories import NAME
from tests.ops.test_both_engines import CORPUS, said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
ROWS = {"id": {"type": "integer"}, "a": {"type": ["null", "string"]}}


def ids_of(table: Table) -> list[str]:
    """The ids of the table's rows, by position."""
    head = table.snapshot()
    shape = shape_of(head)
    names = shape.key_aliases or [BLOCK, ORDINAL]
    rows = [row for batch in from_blocks.local_rows(table, head) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row[BLOCK], row[ORDINAL]))
    return [row_ids.id_text([row[name] for name in names], shape.key_columns) for row in rows]


def entries(table: Table) -> list[dict[str, Any]]:
    """The log as plain data, but for ids, times and the names of files."""
    found = []
    for one in table.entries():
        plain = said(one)
        for block in (*plain.get("blocks", ()), *plain.get("moved", ())):
            block["file"] = ""
        for name in ("deletes", "deleted"):
            plain[name] = len(plain.get(name) or ())
        for part in (plain.get("blocked"), (plain.get("erasure") or {}).get("notice")):
            for name in {"id", "until", "salt"} & {*(part or ())}:
                del part[name]
        for part in (plain.get("version"), plain.get("erasure")):
            (part or {}).pop("time", None)
        found.append(plain)
    return found


def told(table: Table) -> list[Any]:
    """The keys that readers are told of."""
    return [notices.read(table.store, table.name, entry) for entry in table.entries()]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    ("tasks", "name"),
    [
        (2_000, "random"),
        pytest.param(2_000, "compound keys", marks=MORE),
        (block_tasks.TASK_BYTES, "keyless"),
        pytest.param(2_000, "all kinds of keys", marks=MORE),
        pytest.param(block_tasks.TASK_BYTES, "other schemas", marks=MORE),
        pytest.param(block_tasks.TASK_BYTES, "activations", marks=MORE),
    ],
)
def test_erasures_leave_the_same(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, tasks: int, name: str
) -> None:
    monkeypatch.setattr(block_tasks, "TASK_BYTES", tasks)
    if tasks < block_tasks._WORTHWHILE:
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    table = CORPUS[name](lake)
    for at in (1, table.snapshot().number):
        freeze(table, FreezeOptions(at=at, label=f"v{at}"), EngineChoice(LOCAL))
    every = ids_of(table)
    ids = list(dict.fromkeys([every[0], every[len(every) // 2], every[-1]]))
    check_the_same(spark, lake, every, ids)


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("random", "id in (1, 3) or n = 7"),
        pytest.param("compound keys", "id = 2 and n is not null", marks=MORE),
        pytest.param("keyless", "not id > 2", marks=MORE),
        pytest.param("activations", "a in (1, 2)", marks=MORE),
    ],
)
def test_conditions_leave_the_same(spark: SparkSession, lake: Lake, name: str, where: str) -> None:
    table = CORPUS[name](lake)
    for at in (1, table.snapshot().number):
        freeze(table, FreezeOptions(at=at, label=f"v{at}"), EngineChoice(LOCAL))
    check_the_same(spark, lake, ids_of(table), [], where=where)


def check_the_same(
    spark: SparkSession, lake: Lake, every: list[str], ids: list[str], **asked: Any
) -> None:
    """Erase rows on both engines, and hold what they leave against each other."""
    keyed = bool(lake.find(NAME)[0].snapshot().key)
    options = replace(WHY, tell_seconds=3600 * keyed, block=keyed)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    found = []
    for one, choice in ((lake, EngineChoice(LOCAL)), (other, on(spark))):
        table = one.find(NAME)[0]
        would = erase(choice, table, *ids, options=replace(options, dry_run=True), **asked)
        done = erase(choice, table, *ids, options=options, **asked)
        assert (done.lines, done.left) == (would.lines, [])
        assert done.keys == len(ids) if ids else done.keys > 1
        assert done.lines >= done.keys
        assert [(v.version, v.rows) for v in done.versions] == [
            (v.version, v.rows) for v in would.versions
        ]
        assert verify(table, None, choice).problems == []
        left = ids_of(table)
        assert left == [id_ for id_ in every if id_ not in ids] if ids else {*left} <= {*every}
        texts = [table.read_block(block) for block in table.snapshot().blocks]
        found.append((would, comparable(done), entries(table), texts, told(table)))
    for local, remote in zip(*found, strict=True):
        assert local == remote


def comparable(done: Erased) -> dict[str, Any]:
    plain = msgspec.to_builtins(done)
    return {**plain, "told_until": bool(done.told_until), "bytes_deleted": 0}


def of_two_rules(lake: Lake, rules: int) -> Table:
    """A version in which two rows were one by the rules of then: they lacked their key."""
    rows: list[Any] = [{"id": 1, "a": None}, {"id": 2, "a": None}, {"id": 3, "a": "x"}]
    head = commit_rows(lake, NAME, ROWS, ["a"], rows)
    table = lake.find(NAME)[0]
    at = head.by_rules(rules)
    was = here.content(table, at)
    commit_version(
        lake.store, head, FreezePlan(at, "old", None), rows=was.rows, fingerprint=was.fingerprint,
        record_fingerprint=was.record_fingerprint,
    )  # fmt: skip
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": 4, "a": "y"}])
    assert was.rows == rules
    return table


def test_rows_that_earlier_rules_made_one_go_together(lake: Lake, engine: EngineChoice) -> None:
    table = of_two_rules(lake, rules=2)
    with pytest.raises(UsageError, match="version 1 .* other rows instead of these: 1: "):
        erase(engine, table, "2")
    assert erase(engine, table, "1", "2").lines == 2
    assert [version.rows for version in table.snapshot().frozen] == [1]


def test_rows_that_were_apart_go_alone(lake: Lake, engine: EngineChoice) -> None:
    table = of_two_rules(lake, rules=3)
    assert erase(engine, table, "2").lines == 1
    assert [version.rows for version in table.snapshot().frozen] == [2]


def test_many_keys_that_would_come_back_are_not_all_listed(
    lake: Lake, engine: EngineChoice
) -> None:
    keys = range(10, 40)
    rows: list[Any] = [{"id": id_, "a": str(n)} for n in keys for id_ in (n, -n)]
    commit_rows(lake, NAME, ROWS, ["a"], rows)
    table = lake.find(NAME)[0]
    here.freeze(table)
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": 1, "a": "y"}])
    with pytest.raises(UsageError, match="instead of these: 10, 11, .* 18, 19, …"):
        erase(engine, table, *[str(-n) for n in keys])


def test_positions_that_no_line_has_are_of_none(lake: Lake, engine: EngineChoice) -> None:
    """Also those whose block's number is too large to be one."""
    commit_rows(lake, NAME, ROWS, [], [{"id": 1}, {"id": 2}])
    table = lake.find(NAME)[0]
    assert erase(engine, table, "1:7", "2:0", f"{(1 << 33) + 1}:0", "999999999999999999:0") == (
        Erased()
    )
    assert erase(engine, table, "1:1", f"{(1 << 33) + 1}:0").lines == 1
    with pytest.raises(UsageError, match="id 2 cannot belong"):
        erase(engine, table, "1:0", "x")


def test_the_size_of_the_table_decides(lake: Lake, no_java: EngineChoice) -> None:
    table = CORPUS["random"](lake)
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    before = {item.key for item in lake.store.list("")}
    (id_, *_) = ids_of(table)
    with pytest.raises(UsageError, match="Java starts"):
        erase(replace(no_java, limit=Work(bytes_ - 1, 10_000)), table, id_)
    assert {item.key for item in lake.store.list("")} == before, "not even a lock"
    assert erase(replace(no_java, limit=Work(bytes_, 10_000)), table, id_).keys == 1


def test_other_conditions_are_sparks(lake: Lake, no_java: EngineChoice) -> None:
    table = CORPUS["random"](lake)
    for where, words in (
        ("abs(id) = 1", "a condition with the function abs() can only be checked by Spark"),
        ("id = 1) or (true", "a condition with something else than a condition can only"),
        ("_row_id = '1'", "there is no column '_row_id'"),
    ):
        with pytest.raises(SingerlakeError, match=re.escape(words)):
            erase(EngineChoice(LOCAL), table, where=where)
        java = "there is no column" if words.startswith("there") else "Java starts"
        with pytest.raises(SingerlakeError, match=java):
            erase(no_java, table, where=where)
    asked = ("erase", NAME, "--reason", "r", "--engine", "local", "--where")
    refused = run(lake, *asked, "abs(id) = 1")
    assert (refused.exit_code, "only be checked by Spark" in refused.stderr) == (2, True)
    assert run(lake, *asked, "id = 1").exit_code == 0


def test_what_duckdb_gives_up_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = CORPUS["random"](lake)
    before = table.snapshot().number

    def refused(*_: object) -> NoReturn:
        raise OutsideError("more memory")

    monkeypatch.setattr(duck, "answered", refused)
    with pytest.raises(UsageError, match="a condition with more memory needs Spark"):
        erase(EngineChoice(LOCAL), table, where="id = 1")
    assert table.snapshot().number == before


@pytest.mark.parametrize("keys", [["a"], ["id", "a"], []])
def test_rows_of_a_condition_go_with_all_that_they_were(
    lake: Lake, engine: EngineChoice, keys: list[str]
) -> None:
    commit_rows(lake, NAME, ROWS, keys, [{"id": 1, "a": "x"}, {"id": 2, "a": None}])
    commit_rows(lake, NAME, ROWS, keys, [{"id": 3, "a": "x"}, {"id": 4, "a": "y"}])
    table = lake.find(NAME)[0]
    done = erase(engine, table, where="id = 1 or id = 2 or a is null")
    lines = 3 if keys == ["a"] else 2
    assert (done.keys, done.lines) == (2, lines)
    left = {row["id"] for row in here.rows(table)}
    assert left == ({4} if keys == ["a"] else {3, 4})
    assert erase(engine, table, where="id = 99").lines == 0


def test_copies_of_simple_sql_are_rebuilt_without_spark(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}])
    file = tmp_path / "p.yml"
    sql = f"'select id, a from {NAME} where a is not null'"
    file.write_text(
        f"version: 1\nprojections:\n- {{name: p, sql: {sql}, to: out, format: jsonl}}\n"
    )
    (projection,) = declared(file)
    alone = EngineChoice(LOCAL)
    assert [one.error for one in publish(lake, [projection], None, alone)] == [None]
    monkeypatch.setattr(EngineChoice, "of", lambda *_, **__: alone)
    singerlake.Lake(lake.store).table(NAME).erase([1], reason="r", projections=file)
    (left,) = (tmp_path / "out").rglob("*.jsonl")
    assert left.read_text() == '{"id":2,"a":"y"}\n'


def test_copies_that_spark_may_have_to_compute_are_rebuilt_by_spark(
    lake: Lake, no_java: EngineChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts before anything is erased, and is not needed to say what would be."""
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": 1}, {"id": 2}])
    file = tmp_path / "p.yml"
    file.write_text(
        f"version: 1\nprojections:\n- {{name: p, sql: select id + 1 as n from {NAME}, to: out, "
        "format: jsonl}\n"
    )
    (projection,) = declared(file)
    registry.note(lake, projection)
    table = singerlake.Lake(lake.store).table(NAME)
    monkeypatch.setattr(EngineChoice, "of", lambda *_, **__: no_java)
    with pytest.raises(UsageError, match="Java starts"):
        table.erase([1], reason="r", projections=file)
    would = table.erase([1], reason="r", projections=file, dry_run=True)
    assert would.due == ["p"]
    monkeypatch.setattr(EngineChoice, "of", lambda *_, **__: EngineChoice(LOCAL))
    with pytest.raises(UsageError, match="published copies can only be rebuilt by Spark"):
        table.erase([1], reason="r", projections=file)
    assert table.snapshot().number == 1


def test_staged_copies_of_simple_sql_need_no_java(
    lake: Lake, no_java: EngineChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": n} for n in range(1, 5)])
    file = tmp_path / "p.yml"
    file.write_text(
        f"version: 1\nprojections:\n- {{name: p, sql: select id from {NAME} where id > 1, "
        "stage: staging.p, key: id, to: out, format: jsonl}\n"
    )
    monkeypatch.setattr(EngineChoice, "of", lambda *_, **__: no_java)
    (first,) = publish(lake, declared(file), None, no_java)
    assert first.error is None
    table, staged = (singerlake.Lake(lake.store).table(name) for name in (NAME, "staging.p"))
    table.erase([2], reason="r", projections=file, tables={"staging.p": None})
    (shown,) = (tmp_path / "out").glob("*/*.jsonl")
    assert shown.read_text() == '{"id":3}\n{"id":4}\n'
    least = Constraint("range", ["id"], minimum=1)
    alter(lake.store, staged.snapshot(), partial(says.with_constraint, name="l", constraint=least))
    with pytest.raises(UsageError, match="Java starts"):
        table.erase([3], reason="r", projections=file, tables={"staging.p": None})
    assert [row["id"] for row in here.rows(lake.table(NAME))] == [1, 3, 4]


@pytest.mark.usefixtures("processes")
def test_a_small_table_needs_no_pyspark(lake: Lake, tmp_path: Path) -> None:
    """Neither does a published copy of its columns."""
    commit_rows(lake, NAME, ROWS, ["id"], [{"id": 1}, {"id": 2}])
    file = tmp_path / "p.yml"
    file.write_text(f"version: 1\nprojections:\n- {{name: p, from: {NAME}, to: out}}\n")
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake import Lake\n"
        f"lake, file = Lake.open({lake.store.uri!r}), {str(file)!r}\n"
        "assert lake.publish(projections=file)[0].published.rows == 2\n"
        f"done = lake[{NAME!r}].erase([1], reason='r', wait=0, projections=file)\n"
        "assert [one.published.rows for one in done.published] == [1]\n"
        "print(done.is_done, [one.lines for one in done.tables.values()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("True [1]\n", 0), done.stderr
