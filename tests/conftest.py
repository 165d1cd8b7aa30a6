"""What all tests share."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from singerlake.lake import Lake
from tests import needs, recorder
from tests.needs import (
    each_operation,
    environments,
    long_runs,
    many_cases,
    processes,
    services,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

__all__ = [
    "each_operation",
    "environments",
    "long_runs",
    "many_cases",
    "processes",
    "services",
]
# The commands that tests start must not keep files in the real home, nor train Java there.
os.environ["SINGERLAKE_CACHE"] = "off"
# Runs of the target in a CI job would note it in their lakes.
for _name in ("GITHUB_RUN_ID", "AIRFLOW_CTX_DAG_ID", "DAGSTER_RUN_ID"):
    os.environ.pop(_name, None)
os.environ["OPENLINEAGE_DISABLED"] = "true"
# On a busy machine anything may take long: no example fails by the clock, nor does making one.
settings.register_profile(
    "by no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("by no clock")


def pytest_configure(config: pytest.Config) -> None:
    """Where it is asked for, record how long each file takes."""
    from tests import side_by_side  # late: it needs xdist

    tiers = side_by_side.tiers_to_record(config)
    if tiers and not hasattr(config, "workerinput"):
        config.pluginmanager.register(side_by_side.Recorder(config.rootpath, tiers))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name packed bytes by their argument: some hold the time at which they were packed.

    The processes that share the tests out have to find the same names.
    """
    if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()):
        return argname
    return None


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need; leave out variants, unless all are asked for."""
    needs.mark(items)
    if os.environ.get("SINGERLAKE_TESTS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("variant")]
    items[:] = [item for item in items if not item.get_closest_marker("variant")]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)  # before the process that deals tests out hears of them
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what the tests need that are left to run."""
    if worker := getattr(session.config, "workerinput", None):
        from tests.side_by_side import note_needs

        note_needs(worker["testrunuid"], session.items, sys.exc_info()[1])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Hold a test to its tier while its fixtures are made."""
    with needs.guarded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Hold a test to its tier while it runs."""
    with needs.guarded(item):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side, each file is dealt out as a whole."""
    from tests.side_by_side import WholeFiles

    return WholeFiles(config, log)


@pytest.fixture(scope="session", autouse=True)
def _journal() -> Iterator[None]:
    """Where a journal is asked for, write down what is done to lakes."""
    with recorder.asked_for():
        yield


@pytest.fixture(autouse=True)
def _logging_stays_as_it_was() -> Iterator[None]:
    """A plugin that runs in the tests' own process sets up the logging of the whole process."""
    root = logging.getLogger()
    level, factory, hook = root.level, logging.getLogRecordFactory(), sys.excepthook
    yield
    root.setLevel(level)
    logging.setLogRecordFactory(factory)
    sys.excepthook = hook


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake in a fresh folder."""
    return Lake.open(str(tmp_path / "lake"), create=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: starting one takes seconds.

    Java does not prove the bytecode of Spark's classes, which takes an eighth of a start and of
    what is done for the first time. It has its memory from the beginning, for growing to it, Java
    collects garbage thrice as often; and as much of it for what stays as it takes in the end. The
    code that Spark makes of a plan is kept for the next test with such a plan, and plans are not
    described in full for a web page that nobody sees.
    """
    from singerlake.engine.spark.jvm.session import session

    unproved = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    settings = {
        "spark.driver.memory": "1200m",
        "spark.driver.defaultJavaOptions": f"{unproved} -Xms1200m -Xmn400m",
        "spark.sql.codegen.cache.maxEntries": "300",
        "spark.sql.ui.explainMode": "simple",
    }
    yield session("local[2]", settings)


QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.debug.maxToStringFields": "1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def quick_plans(spark: SparkSession) -> Iterator[None]:
    """For files with many jobs on a few rows: Spark compiles no plan, and plans it only once.

    That is a fifth of what their jobs take. It is for what does not rest on how Spark gets to a
    job's rows, and for files beside which others run the same jobs as users do. Where all variants
    are asked for, these files do as well.
    """
    if os.environ.get("SINGERLAKE_TESTS") == "all":
        yield
        return
    before = {name: str(spark.conf.get(name)) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
