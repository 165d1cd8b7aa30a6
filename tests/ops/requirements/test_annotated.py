"""Requirements that a table, its tap or the lake is annotated with hold for each freeze."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import singerlake
from singerlake.annotations.changes import annotate, change_of
from singerlake.annotations.subjects import LAKE, Subject
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import DamagedError, RequirementsError, UsageError
from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.ops.rejected.shop import EITHER, row, sync, table_of

HERE = EngineChoice(LOCAL)
ID: dict[str, Any] = {"id": {"type": "integer"}}
ALL = ["rows < 9", "rows > 0", "deleted < 5%"]
SUBJECTS = {"lake": LAKE, "tap": Subject("tap"), "table": Subject("tap", "s")}


@pytest.fixture
def table(lake: Lake) -> Table:
    for stream in ("s", "t"):
        commit_rows(lake, f"tap.{stream}", ID, ["id"], [{"id": 1}, {"id": 2}])
    return lake.table("tap.s")


def require(lake: Lake, *texts: str, of: str = "table") -> None:
    annotate(lake, [change_of(SUBJECTS[of], {}, {"requirements": texts})])


@pytest.mark.parametrize("of", SUBJECTS)
def test_each_freeze_of_the_table_is_held_to_them(lake: Lake, table: Table, of: str) -> None:
    require(lake, "rows > 2", of=of)
    with pytest.raises(RequirementsError, match="rows > 2: found 2"):
        freeze(table, None, HERE)
    with pytest.raises(RequirementsError):
        singerlake.open(lake.store.uri)["tap.s"].freeze(engine="local")
    assert run(lake, "freeze", "tap.s", "--engine", "local").exit_code == 4
    assert not table.snapshot().frozen
    commit_rows(lake, "tap.s", ID, ["id"], [{"id": 3}])
    made = freeze(table, FreezeOptions(require=["rows = 3"]), HERE).version
    assert made.requirements == ["rows > 2", "rows = 3"]


def test_another_table_is_not_held_to_those_of_one(lake: Lake, table: Table) -> None:
    require(lake, "rows > 2")
    assert freeze(lake.table("tap.t"), None, HERE).new


@pytest.fixture
def letters(lake: Lake) -> TableName:
    """A dead-letter table that a replay has emptied."""
    sync(lake, row(1, "one"), row(2, 2))
    sync(lake, schema=EITHER)
    table_of(lake).rejected().replay()
    return TableName("tap-test", "a__rejected")


@pytest.mark.parametrize("of", ["lake", "tap-test"])
def test_empty_dead_letter_table_is_not_held_to_those_of_its_tap(
    lake: Lake, letters: TableName, of: str
) -> None:
    subject = LAKE if of == "lake" else Subject(of)
    annotate(lake, [change_of(subject, {}, {"requirements": ["rows > 0"]})])
    assert (
        run(lake, "freeze", "--all", "--require", "max(id) < 9", "--engine", "local").exit_code == 0
    )
    assert run(lake, "freeze", str(letters), "--engine", "local", "--again").exit_code == 0
    assert run_json(lake, "show", str(letters))["requirements"] == []
    assert run_json(lake, "show", "tap-test.a")["requirements"] == ["rows > 0"]


@pytest.mark.parametrize("how", ["given", "both", "own"])
def test_dead_letter_table_that_is_named_is_held_to_them(
    lake: Lake, letters: TableName, how: str
) -> None:
    if how == "own":
        subject = Subject(letters.tap, letters.stream)
        annotate(lake, [change_of(subject, {}, {"requirements": ["rows > 0"]})])
        words = ["--all"]
    else:
        words = [str(letters), *(["tap-test.a"] if how == "both" else []), "--require", "rows > 0"]
    done = run(lake, "freeze", *words, "--engine", "local")
    assert (done.exit_code, "a__rejected at transaction 2" in done.stderr) == (4, True)


def test_stream_with_the_name_of_a_dead_letter_table_is_held_to_them(lake: Lake) -> None:
    commit_rows(lake, "tap.s__rejected", ID, ["id"], [{"id": 1}])
    require(lake, "rows > 2", of="tap")
    assert run(lake, "freeze", "--all", "--engine", "local").exit_code == 4


def test_lake_version_holds_each_table_to_its_own(lake: Lake, table: Table) -> None:
    require(lake, "rows > 2")
    require(lake, "rows > 0", of="tap")
    options = LakeFreezeOptions()
    with pytest.raises(RequirementsError) as error:
        freeze_lake(lake, plan(lake, lake.tables, options), options, HERE)
    assert [*error.value.lines[1:3]] == ["tap.s at transaction 1:", "  rows > 2: found 2"]
    assert not lake.table("tap.t").snapshot().frozen
    commit_rows(lake, "tap.s", ID, ["id"], [{"id": 3}])
    done = freeze_lake(lake, plan(lake, lake.tables, options), options, HERE)
    met = {str(name): version.requirements for name, version in done.tables.items()}
    assert met == {"tap.s": ["rows > 0", "rows > 2"], "tap.t": ["rows > 0"]}


def test_version_that_is_there_is_held_to_them_too(lake: Lake, table: Table) -> None:
    freeze(table, None, HERE)
    require(lake, "rows > 2")
    with pytest.raises(RequirementsError):
        freeze(table, None, HERE)


def test_change_with_a_version_is_refused(lake: Lake, table: Table, tmp_path: Path) -> None:
    require(lake, "rows > 0")
    (tmp_path / "rows.csv").write_text("id\n3\n")
    before = table.snapshot().number
    for more in ([], ["--dry-run"]):
        done = run(lake, "upload", "tap.s", str(tmp_path / "rows.csv"), "--new-version", *more)
        assert done.exit_code == 2
        assert "leave it out, then run: singerlake freeze tap.s" in done.output
    assert table.snapshot().number == before


def test_new_table_of_a_tap_with_requirements_gets_no_version(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    require(lake, "rows > 0", of="tap")
    (tmp_path / "rows.csv").write_text("id\n3\n")
    done = run(
        lake, "upload", "tap.new", str(tmp_path / "rows.csv"), "--key", "id", "--new-version"
    )
    assert done.exit_code == 2, done.output
    assert names.TableName("tap", "new") not in lake.tables()


def _damage(raw: dict[str, Any]) -> bytes:
    return json.dumps(raw).encode()[:-5]


def _of_a_newer_release(raw: dict[str, Any]) -> bytes:
    raw["requirements"] = ["skew(total) < 2"]
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("change", "error"), [(_damage, DamagedError), (_of_a_newer_release, UsageError)]
)
def test_freeze_needs_to_know_them(
    lake: Lake, table: Table, change: Callable[[dict[str, Any]], bytes], error: type[Exception]
) -> None:
    require(lake, "rows > 0")
    file = lake.store.get(names.LAKE)
    lake.store.replace(names.LAKE, change(json.loads(file.data)), file.etag)
    with pytest.raises(error):
        freeze(table, None, HERE)


def test_they_are_set_shown_exported_and_removed(lake: Lake, table: Table, tmp_path: Path) -> None:
    said = ("--require", "rows > 0", "--require", "rows > 0", "--require", "deleted < 5%")
    run(lake, "annotate", "tap.s", *said)
    run(lake, "annotate", "--require", "rows < 9")
    assert run_json(lake, "show", "tap.s")["requirements"] == ALL
    assert "required      deleted < 5%\n" in run(lake, "show", "tap.s").output
    file = tmp_path / "annotations.yml"
    file.write_text(run(lake, "annotate", "--export").output)
    assert yaml.safe_load(file.read_text())["requirements"] == ["rows < 9"]
    run(lake, "annotate", "tap.s", "--require", "")
    assert run_json(lake, "show", "tap.s")["requirements"] == ["rows < 9"]
    run(lake, "annotate", "--from", str(file))
    assert run_json(lake, "show", "tap.s")["requirements"] == ALL


@pytest.mark.parametrize("subject", ["tap.s.id", "tap.s"])
def test_what_is_no_requirement_is_not_kept(lake: Lake, table: Table, subject: str) -> None:
    wrong = "rows > 0" if subject.endswith("id") else "rows are many"
    before = lake.store.get(names.LAKE).data
    done = run(lake, "annotate", subject, "--require", wrong)
    assert done.exit_code == 2
    assert "not a field of a column" in done.output or "is not a requirement" in done.output
    assert lake.store.get(names.LAKE).data == before
