"""Workers of a session that the user started find Singerlake."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from singerlake.api import Lake
from singerlake.engine.spark.jvm.failures import translated
from singerlake.engine.spark.jvm.session import given, session
from singerlake.errors import RuntimeMissingError, SingerlakeError
from tests.build import commit_rows


def own_session(python: str = "python3", master: str = "local[2]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=python, master=master))


@pytest.mark.parametrize(
    ("python", "master", "environment", "expected"),
    [
        ("python3", "local[2]", None, sys.executable),
        ("python3", "local", None, sys.executable),
        ("python3", "local[2]", "python3", "python3"),
        ("/opt/python", "local[2]", None, "/opt/python"),
        ("/opt/python", "local[2]", "/opt/python", "/opt/python"),
        ("python3", "yarn", None, "python3"),
        ("python3", "local-cluster[1,1,1024]", None, "python3"),
    ],
)
def test_workers_have_this_python_unless_the_user_chose_one(
    monkeypatch: pytest.MonkeyPatch,
    python: str,
    master: str,
    environment: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    own = own_session(python, master)
    assert given(own) is own
    assert own.sparkContext.pythonExec == expected


def test_running_session_of_the_user_is_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    own = own_session()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: own)
    assert session() is given(None) is own
    assert own.sparkContext.pythonExec == sys.executable


@pytest.mark.spark
def test_change_works_in_a_session_whose_workers_nobody_chose_a_python_for(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    context = cast("Any", spark.sparkContext)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(context, "pythonExec", "python3")
    with Lake(lake.store).table("tap.t").change(spark=spark) as change:
        change.upsert([{"id": 2}])
    assert change.result.inserted == 1
    assert context.pythonExec == sys.executable


@pytest.mark.parametrize("module", ["singerlake", "msgspec"])
def test_worker_without_a_package_is_reported_with_the_settings_to_change(module: str) -> None:
    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "serializers.py", line 485, in loads\n'
        f"ModuleNotFoundError: No module named '{module}'\n"
    )
    error: SingerlakeError = translated(PythonException(text))
    assert isinstance(error, RuntimeMissingError)
    for words in (f"'{module}'", "PYSPARK_PYTHON", "spark.pyspark.python"):
        assert words in str(error)
