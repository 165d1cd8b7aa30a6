"""Rows changed in this process and on Spark: they answer alike, and write the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import singerlake
from singerlake import extras
from singerlake.engine import choice as engines
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import Work
from singerlake.errors import (
    ConflictError,
    RejectedRowsError,
    RuntimeMissingError,
    UsageError,
)
from singerlake.lake import Lake, Table
from singerlake.ops.change import change as ops
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import RowIds
from singerlake.ops.change.table_change import TableChange
from singerlake.ops.verify.verify import verify
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.blocks import block_tasks
from singerlake.snapshot.from_blocks import local_rows
from tests.build import commit_rows
from tests.needs import MORE
from tests.ops.rows_back.histories import NAME
from tests.ops.test_both_engines import CORPUS, entry

ROOT = Path(__file__).parents[3]
ROW: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
HERE = EngineChoice(LOCAL)


def delete(table: Table, *ids: str, choice: EngineChoice = HERE, **options: Any) -> Changed:
    step = ChangeStep(Mode.DELETE, RowIds(ids), "--key")
    return change(table, [step], ChangeOptions(**options), choice)


def rows_of(table: Table) -> list[dict[str, Any]]:
    head = table.snapshot()
    batches = list(local_rows(table, head))
    names = {f"c{n}": name for n, (name, _) in enumerate(head.columns)}
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: row[own] for own, name in names.items()} for row in rows]


def ids_of(table: Table) -> list[str]:
    """The rows' ids, as a query shows them."""
    from singerlake.rows.changes.row_ids import id_text

    head = table.snapshot()
    rows = [row for batch in local_rows(table, head) for row in batch.to_pylist()]
    columns = tuple(head.columns[index] for index in head.key)
    if not columns:
        return [f"{row[BLOCK]}:{row[ORDINAL]}" for row in rows]
    return [id_text([row[f"c{index}"] for index in head.key], columns) for row in rows]


@pytest.fixture
def named(lake: Lake) -> Table:
    rows = [{"id": n, "name": f"n{n}"} for n in range(1, 8)]
    commit_rows(lake, "tap.s", ROW, ["id"], rows, block_rows=3)
    return lake.find("tap.s")[0]


def test_rows_are_deleted_by_their_keys(named: Table, engine: EngineChoice) -> None:
    would = delete(named, "2", "5", "77", choice=engine, dry_run=True)
    assert would == Changed(None, deleted=2, absent=1)
    assert named.snapshot().number == 1
    done = delete(named, "2", "5", "77", choice=engine, new_version=True, comment="gone")
    assert (done.transaction, done.deleted, done.absent) == (2, 2, 1)
    assert done.version is not None
    assert done.version.rows == 5
    assert [row["id"] for row in rows_of(named)] == [1, 3, 4, 6, 7]
    assert delete(named, "2", choice=engine) == Changed(None, absent=1)
    with pytest.raises(RejectedRowsError, match="'x' is not the id of a row of this table"):
        delete(named, "3", "x", choice=engine)
    with pytest.raises(ConflictError):
        delete(named, "3", choice=engine, if_transaction=1)
    assert named.snapshot().number == 2


def test_rows_without_a_key_are_deleted_by_their_places(lake: Lake, engine: EngineChoice) -> None:
    rows = [{"id": 1, "name": "a"}, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    commit_rows(lake, "tap.s", ROW, [], rows, block_rows=2)
    table = lake.find("tap.s")[0]
    done = delete(table, "1:1", choice=engine, new_version=True)
    assert (done.deleted, done.whole, done.transaction) == (1, True, 2)
    assert rows_of(table) == [rows[0], rows[2]]
    with TableChange(table, ChangeOptions(), engine) as same:
        same.replace([rows[2], rows[0]])
    assert same.result == Changed(None, unchanged=2)
    with TableChange(table, ChangeOptions(), engine) as more:
        more.upsert([{"id": 9}])
    assert more.result == Changed(3, inserted=1)


@pytest.mark.parametrize("kind", ["dictionaries", "arrow", "pandas", "polars", "batch"])
def test_frames_of_all_kinds(named: Table, engine: EngineChoice, kind: str) -> None:
    columns = {"id": [1, 3, 9], "name": ["other", None, "new"]}
    made: dict[str, Callable[[], Any]] = {
        "dictionaries": lambda: pa.table(columns).to_pylist(),
        "arrow": lambda: pa.table(columns),
        "pandas": lambda: pa.table(columns).to_pandas().set_index("id"),
        "polars": lambda: pytest.importorskip("polars").DataFrame(columns),
        "batch": lambda: pa.table(columns).to_batches()[0],
    }
    with TableChange(named, ChangeOptions(), engine) as asked:
        asked.upsert(made[kind]())
        asked.delete([5, (6,)])
    assert asked.result == Changed(2, inserted=1, updated=2, deleted=2)
    found = [(row["id"], row["name"]) for row in rows_of(named)]
    assert sorted(found) == [(1, "other"), (2, "n2"), (3, None), (4, "n4"), (7, "n7"), (9, "new")]
    with pytest.raises(UsageError, match="has a column 'nam'"), named_change(named, engine) as bad:
        bad.upsert([{"id": 1, "nam": "x"}])
    with pytest.raises(RejectedRowsError, match="line 2"), named_change(named, engine) as bad:
        bad.upsert([{"id": 1}, {"id": "x"}])


def named_change(table: Table, choice: EngineChoice) -> TableChange:
    return TableChange(table, ChangeOptions(), choice)


@pytest.mark.parametrize(
    ("name", "many"),
    [
        pytest.param(name, many, marks=() if name == "other schemas" else MORE)
        for name in CORPUS
        for many in (False, True)
    ],
)
@pytest.mark.usefixtures("each_operation")
def test_both_engines_write_the_same(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch, name: str, many: bool
) -> None:
    CORPUS[name](lake)
    if many:
        monkeypatch.setattr(block_tasks, "TASK_BYTES", 2_000)
        monkeypatch.setattr(block_tasks, "WRITE_BYTES", 2_000)
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    found = []
    for one, choice in ((lake, HERE), (other, EngineChoice.of(spark=spark))):
        table = one.find(NAME)[0]
        number, ids = table.snapshot().number, ids_of(table)
        column = [name for name, _ in table.snapshot().columns if name in ("n", "v", "a", "name")]
        told = [delete(table, *ids[::5], choice=choice, dry_run=True)]
        told.append(delete(table, *ids[::5], choice=choice, new_version=True, label="less"))
        rest = ids_of(table)
        with TableChange(table, ChangeOptions(new_version=True), choice) as asked:
            value = "y" if column[0] == "name" else 77
            asked.update([{"_row_id": id_, column[0]: value} for id_ in rest[::3]])
        assert asked.result is not None
        told.append(asked.result)
        versions = [done.version for done in told if done.version is not None]
        entries = [entry(table, number + 1), entry(table, number + 2)]
        for said in entries:
            del said["version"]["time"]
            # Lines of deletions say when, and so do files' names.
            said["blocks"] = [
                (one["number"], one["rows"], one["file"].partition("/")[0])
                for one in said["blocks"]
                if not many  # on Spark there are more tasks, each with blocks of its own
            ]
        marks = [(v.fingerprint, v.record_fingerprint, v.rows) for v in versions]
        counts = [(d.inserted, d.updated, d.deleted, d.absent, d.whole) for d in told]
        lines = sorted(without_stamps(table, number))
        found.append((entries, marks, counts, lines))
        assert not verify(table, None, HERE).problems
    assert found[0] == found[1]


def without_stamps(table: Table, number: int) -> list[tuple[Any, ...]]:
    """The records that were written, without the times at which they were."""
    import json

    text = b"".join(table.read_block(block) for block in table.snapshot().blocks_after(number))
    found = []
    for line in map(json.loads, text.splitlines()):
        if line["type"] == "RECORD":
            record = {k: v for k, v in line["record"].items() if k != "_sdc_deleted_at"}
            deleted = line["record"].get("_sdc_deleted_at") is not None
            found.append((json.dumps(record), deleted))
    return found


def test_sql_is_sparks(named: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Selected(RowIds):
        of_spark = "SQL in --where or --set"

    step = ChangeStep(Mode.DELETE, Selected(["1"]), "t")
    with pytest.raises(UsageError, match="SQL in --where or --set can only be checked by Spark"):
        change(named, [step], None, HERE)
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match="changing rows needs pyspark"):
        change(named, [step])
    assert named.snapshot().number == 1


def test_a_table_that_grew_goes_on_with_spark(
    named: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at before the lease, and under it."""
    asked: list[Any] = []

    def spark_engine(self: EngineChoice, what: str) -> NoReturn:
        asked.append(what)
        raise UsageError("Java starts")

    real = ops.change_rows

    def meanwhile(*args: Any) -> Changed:
        rows = [{"id": n, "name": "x" * 99} for n in range(100)]
        commit_rows(Lake(named.store), "tap.s", ROW, ["id"], rows)
        return real(*args)

    monkeypatch.setattr(EngineChoice, "spark_engine", spark_engine)
    monkeypatch.setattr(ops, "change_rows", meanwhile)
    with pytest.raises(UsageError, match="Java starts"):
        delete(named, "1", choice=EngineChoice(limit=Work(1_000, 1_000)))
    assert asked == ["changing rows"]


def test_the_rows_that_are_given_count_too(named: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def spark_engine(self: EngineChoice, what: str) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(EngineChoice, "spark_engine", spark_engine)
    monkeypatch.setattr(engines, "SMALL", Work(10_000, 10_000))
    with named_change(named, EngineChoice()) as asked:
        asked.upsert(pa.table({"id": range(8)}))
    assert asked.result == Changed(2, inserted=1, unchanged=7)
    with pytest.raises(UsageError, match="Java starts"), named_change(named, EngineChoice()) as big:
        big.upsert(pa.table({"id": range(20_000)}))


def test_a_program_needs_no_pyspark(named: Table) -> None:
    table = singerlake.open(named.store.uri)["tap.s"]
    with table.change(engine="local") as asked:
        asked.delete([1])
    assert asked.result == Changed(2, deleted=1)
    with pytest.raises(UsageError, match="needs no session"):
        table.change(engine="local", spark=object())  # type: ignore[arg-type]


@pytest.mark.usefixtures("processes")
def test_small_tables_are_changed_without_pyspark(named: Table, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,name\n1,other\n20,new\n")
    (tmp_path / "gone.jsonl").write_text('{"id": 3}\n')
    commands = [
        ["delete", "tap.s", "--key", "2"],
        ["delete", "tap.s", "--from", str(tmp_path / "gone.jsonl"), "--new-version"],
        ["upload", "tap.s", str(tmp_path / "more.csv")],
        ["upload", "made.s", str(tmp_path / "more.csv"), "--key", "id"],
    ]
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "import singerlake\n"
        f"with singerlake.open({named.store.uri!r})['tap.s'].change() as change:\n"
        "    change.upsert([{'id': 30, 'name': None}])\n"
        "print(change.result.inserted)\n"
        "from singerlake_cli.main import cli\n"
        f"for command in {commands!r}:\n"
        f"    cli(['--lake', {named.store.uri!r}, *command], standalone_mode=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1"
    assert [row["id"] for row in rows_of(named)] == [4, 5, 6, 7, 30, 1, 20]


def test_what_is_kept_is_given_up(named: Table) -> None:
    kept: list[Any] = []

    class Noting(LocalEngine):
        def keep(self, rows: Any) -> Any:
            kept.append(rows)
            return super().keep(rows)

    class Local(EngineChoice):
        def engine_for(self, *args: Any, **kwargs: Any) -> Any:
            return Noting()

    assert delete(named, "1", choice=Local(LOCAL)).deleted == 1
    assert len(kept) == 2
