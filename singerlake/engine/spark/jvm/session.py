"""A Spark session for small local jobs, or for the cluster that the user names."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from singerlake.engine.spark.jvm import class_data, java, launch
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.launch import Launch
from singerlake.errors import RuntimeMissingError

Process = subprocess.Popen[bytes]
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark prints each failed query here, with Java's stack, before it raises the error."""
_ANY_PYTHON = "python3"
"""What PySpark starts workers with if PYSPARK_PYTHON is not set."""
_ended: list[Process] = []
"""Those that :func:`end_java` has killed."""


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
    with plain_errors():  # its Java may have ended since the last job
        running = SparkSession.getActiveSession()
    if running is not None:
        return _with_python(running)
    launched = launch.take(master, conf)
    try:
        return _started(launched, conf)
    except BaseException:
        launch.give_back(launched)
        raise


def given(spark: SparkSession | None) -> SparkSession:
    """Return the session that a caller gave, ready for jobs; otherwise as :func:`session`."""
    return session() if spark is None else _with_python(spark)


def _with_python(spark: SparkSession) -> SparkSession:
    """Let workers of a session that the user started have this process's Python.

    PySpark would start the first ``python3`` on the PATH, which is another one if a virtual
    environment is in use and not activated. A Python that the user chose, and a cluster's, stay.
    """
    context: Any = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.pythonExec != _ANY_PYTHON
    if not chosen and runs_here(spark):
        context.pythonExec = sys.executable
    return spark


def _started(launched: Launch, conf: Mapping[str, str] | None) -> SparkSession:
    settings = list(launched.settings.items())
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    process = None
    if SparkContext._gateway is None:
        spark_conf = SparkConf(loadDefaults=False).setAll(settings)
        gateway, process = _connected(launched, spark_conf)
        with plain_errors():
            context = SparkContext(conf=spark_conf, gateway=gateway)
    else:
        context = SparkContext.getOrCreate(SparkConf().setAll(settings))
    if not _runs_here(context.master or ""):
        context.addPyFile(str(_packed(launched.folder)))
    spark = SparkSession(context)
    # Settings of the user's may name something that is only written at a stop in good order.
    atexit.register(_stop, spark, os.getpid(), None if conf else process)
    context.setLogLevel("ERROR")
    # At Ctrl-C it shows its own stack, and says nothing that the command does not say.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in _QUERY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return spark


def end_java() -> None:
    """End the driver's Java at once, and whatever it does; may be called by a signal's handler.

    Java is asked nothing, for the signal may have come while it was to answer something else.
    """
    context: Any = SparkContext._active_spark_context
    if context is not None and getattr(context, "_accumulatorServer", None) is not None:
        # It would print that Java hung up.
        context._accumulatorServer.handle_error = lambda *_: None
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        _ended.append(process)
        process.kill()


def forget_ended() -> bool:
    """Forget the session where its Java has ended, so that the next one asked for is a new one.

    Returns:
        Whether it had.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    if process in _ended:
        process.wait()
    if process.poll() is None:
        return False
    context: Any = SparkContext._active_spark_context
    if context is not None and getattr(context, "_accumulatorServer", None) is not None:
        # It takes up to half a second to look whether it should end.
        threading.Thread(target=context._accumulatorServer.shutdown, daemon=True).start()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    launch.forget()
    return True


def cores(spark: SparkSession) -> int:
    """Count tasks that run at the same time, as far as the driver knows."""
    return max(1, spark.sparkContext.defaultParallelism)


def runs_here(spark: SparkSession) -> bool:
    """Tell whether all tasks run on this machine, and so find its files."""
    return _runs_here(spark.sparkContext.master or "")


def _runs_here(master: str) -> bool:
    """Tell whether Python's workers are started by this very Python's environment."""
    return re.match(r"local(\[|$)", master) is not None


def _packed(folder: Path) -> Path:
    """This package as a zip file for the executors, so that they run the driver's release.

    What it depends on is not in it: that is compiled, and must be installed there.
    """
    source = Path(__file__).parents[3]
    packed = folder / f"{source.name}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*")):
            if path.suffix in {".py", ".properties"}:
                archive.write(path, path.relative_to(source.parent))
    return packed


def _connected(launched: Launch, conf: SparkConf) -> tuple[Any, Process | None]:
    """PySpark's gateway to Java, and Java's process where it was started here."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java already
        return launch_gateway(conf), None  # type: ignore[no-untyped-call]
    runtime = java.find(launched.master)
    log = launched.log
    try:
        if launched.direct:
            starting = launched.begin(runtime)
            gateway = _gateway(starting.gateway())
            if starting.archive is not None:
                atexit.register(class_data.train_later, starting.archive)
            return gateway, gateway.proc
        with log.open("wb") as output, _environment(JAVA_HOME=str(runtime.home)):
            return launch_gateway(conf, {"stderr": output, "stdout": output}), None  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, RuntimeMissingError) as error:
        printed = log.read_text("utf-8", "replace").strip().splitlines()
        raise RuntimeMissingError(
            f"Java ({runtime.path}) did not start for Spark: "
            + (printed[-1][:300] if printed else str(error))
        ) from error


def _gateway(started: java.Gateway) -> Any:
    """PySpark's side of a JVM that runs already, handed over as spark-submit does it."""
    variables = {
        "PYSPARK_GATEWAY_PORT": str(started.port),
        "PYSPARK_GATEWAY_SECRET": started.secret,
    }
    with _environment(**variables):
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


def _stop(spark: SparkSession, owner: int, process: Process | None) -> None:
    """At exit: end Java at once where it is ours and has nothing to write, else in good order.

    PySpark's orderly stop takes a second: the thread that takes accumulators' sums looks only
    so often whether it should end. Python's workers end when Java does.
    """
    if os.getpid() != owner:  # a forked child has no part in it
        return
    with contextlib.suppress(Exception):  # the process ends anyway, and must end quietly
        if process is None:
            spark.stop()
            return
        context: Any = spark.sparkContext
        # It would print that Java hung up.
        context._accumulatorServer.handle_error = lambda *_: None
        # So that what is left of Java's objects in Python does not call home.
        context._gateway.shutdown()
    if process is not None:
        process.kill()
        process.wait()
