"""A Spark session for small local jobs, or for the cluster that the user names."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from singerlake.errors import RuntimeMissingError
from singerlake.spark import java

LOG4J = Path(__file__).with_name("log4j2.properties")
LOG_NAME = "spark.log"
_GIB = 1 << 30
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark prints each failed query here, with Java's stack, before it raises the error."""

# What makes names, times and results the same everywhere; asked for on every master.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    # Queries switch it off for themselves; Spark's parser goes by the session that is active.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Get the running session, or start one.

    Nothing that Java or Spark say reaches the terminal: it goes to a file in a temporary
    folder, which is deleted at exit along with Spark's other files. A failure to start shows
    its last lines.

    Args:
        master: Spark's master URL; all cores of this machine by default.
        conf: More Spark settings; they win over the ones chosen here.

    Raises:
        RuntimeMissingError: There is no Java 17 or later, or it does not start.
    """
    if (running := SparkSession.getActiveSession()) is not None:
        return running
    folder = Path(tempfile.mkdtemp(prefix="singerlake-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = {**_settings(master or _default_master(), folder), **(conf or {})}
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    if SparkContext._gateway is None:
        gateway = _launch(spark_conf, settings.get("spark.master", ""), folder / LOG_NAME)
        context = SparkContext(conf=spark_conf, gateway=gateway)
    else:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    if not _runs_here(context.master or ""):
        context.addPyFile(str(_packed(folder)))
    spark = SparkSession(context)
    atexit.register(_stop, spark)
    context.setLogLevel("ERROR")
    # At Ctrl-C it shows its own stack, and says nothing that the command does not say.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in _QUERY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return spark


def running_tasks(spark: SparkSession) -> tuple[int, int]:
    """Tasks done, and tasks in all, of the stages that are running now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    done: int = sum(stage.numCompletedTasks for stage in known)
    total: int = sum(stage.numTasks for stage in known)
    return done, total


def cores(spark: SparkSession) -> int:
    """Tasks that run at the same time, as far as the driver knows."""
    return max(1, spark.sparkContext.defaultParallelism)


def _runs_here(master: str) -> bool:
    """Whether Python's workers are started by this very Python's environment."""
    return re.match(r"local(\[|$)", master) is not None


def _packed(folder: Path) -> Path:
    """This package as a zip file for the executors, so that they run the driver's release.

    What it depends on is not in it: that is compiled, and must be installed there.
    """
    source = Path(__file__).parents[1]
    packed = folder / f"{source.name}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*")):
            if path.suffix in {".py", ".properties"}:
                archive.write(path, path.relative_to(source.parent))
    return packed


def _settings(master: str, folder: Path) -> dict[str, str]:
    # Spark's own shell script splits these at spaces, so a path is given as a URI.
    options = [f"-Dlog4j2.configurationFile={LOG4J.as_uri()}", f"-Dderby.system.home={folder}"]
    settings = {
        **_ALWAYS,
        "spark.app.name": "singerlake",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    if master:
        settings["spark.master"] = master
    if master.startswith("local"):
        count = _local_cores(master)
        # The first-tier compiler and the serial collector start 1.8 s sooner, and jobs on
        # one machine are over before the others would have paid.
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{_driver_memory() >> 20}m",
            "spark.local.dir": str(folder),
            "spark.sql.shuffle.partitions": str(max(2, count * 2)),
        }
    settings["spark.driver.extraJavaOptions"] = " ".join(options)
    return settings


def _default_master() -> str:
    """All cores of this machine; nothing where spark-submit has named the master already."""
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


def _local_cores(master: str) -> int:
    found = re.match(r"local(?:-cluster)?\[(\d+)(?:,(\d+))?", master)
    if found:
        return int(found.group(1)) * int(found.group(2) or 1)
    return (os.cpu_count() or 1) if "*" in master else 1


def _driver_memory() -> int:
    """A third of the machine's memory, from 1 to 8 GiB: Python's workers need some too."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 4 * _GIB
    return min(8 * _GIB, max(_GIB, total // 3))


def _launch(conf: SparkConf, master: str, log: Path) -> Any:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java already
        return launch_gateway(conf)  # type: ignore[no-untyped-call]
    found = java.find(master)
    try:
        if java.starts_directly(master):
            return _gateway(java.start(found, dict(conf.getAll()), log))
        with log.open("wb") as output, _environment(JAVA_HOME=str(found.home)):
            return launch_gateway(conf, {"stderr": output, "stdout": output})  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, RuntimeMissingError) as error:
        said = log.read_text("utf-8", "replace").strip().splitlines()
        raise RuntimeMissingError(
            f"Java ({found.path}) did not start for Spark: "
            + (said[-1][:300] if said else str(error))
        ) from error


def _gateway(started: java.Gateway) -> Any:
    """PySpark's side of a JVM that runs already; PySpark is told of it as spark-submit tells it."""
    told = {"PYSPARK_GATEWAY_PORT": str(started.port), "PYSPARK_GATEWAY_SECRET": started.secret}
    with _environment(**told):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = started.process
    return gateway


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for a moment: processes started later must not inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the process ends anyway, and must end quietly
        spark.stop()
