"""What a session is started with: Spark's settings for small local jobs, and for clusters.

Nothing here imports pyspark, so that a JVM can start while Python still imports it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

LOG4J = Path(__file__).with_name("log4j2.properties")
_GIB = 1 << 30

EXACT_DECIMALS = {
    # Else the product of decimal(38,8) and decimal(38,2) has 6 digits behind the point, …
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # … and where the two meet, as in a comparison, both have 2.
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
}
"""With these Spark keeps the digits after the point, and what has no room then is an error. All
decimals of a lake have 38 digits, so without them Spark rounds in silence (decision 122)."""
# What makes names, times and results the same everywhere; asked for on every master.
_ALWAYS = {
    **EXACT_DECIMALS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    # Queries switch it off for themselves; Spark's parser goes by the session that is active.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Where in Python a column was made: errors here do not show it, and asking Java at each step
    # takes longer than the step.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}


def settings_for(master: str, folder: Path) -> dict[str, str]:
    """Spark's settings for a master, with all its files in a folder."""
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
        # With that compiler Java takes 48 MiB for what it compiled. Spark fills them in some
        # hundred jobs, and from then on Java throws code away that it compiles again.
        options.append("-XX:ReservedCodeCacheSize=256m")
        # A first query's classes take 140 MiB; on the way there Java would collect four times.
        options.append("-XX:MetaspaceSize=256m")
        # Libraries unpacked there go with the folder, however Java ends.
        options.append(f"-Djava.io.tmpdir={folder}")
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{_driver_memory() >> 20}m",
            # A task that asks for too much memory fails alone, and says so; Java lives on.
            "spark.executor.killOnFatalError.depth": "0",
            # What comes to the driver at once, packed; beside what is made of it.
            "spark.driver.maxResultSize": f"{_driver_memory() >> 21}m",
            "spark.local.dir": str(folder),
            "spark.sql.shuffle.partitions": str(max(2, count * 2)),
        }
        if not master.startswith("local-cluster"):
            # Executors elsewhere run the package that is sent to them, which comes with a task.
            settings["spark.python.daemon.module"] = "singerlake.sql.daemon"
            # Spark listens on 127.0.0.1, where other users of the machine are too; it draws
            # the secret itself here, and there only.
            settings["spark.authenticate"] = "true"
    settings["spark.driver.extraJavaOptions"] = " ".join(options)
    return settings


def default_master() -> str:
    """Name all cores of this machine; nothing where spark-submit has named the master already."""
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


def _local_cores(master: str) -> int:
    counts = re.match(r"local(?:-cluster)?\[(\d+)(?:,(\d+))?", master)
    if counts:
        return int(counts.group(1)) * int(counts.group(2) or 1)
    return (os.cpu_count() or 1) if "*" in master else 1


def _driver_memory() -> int:
    """A third of the machine's memory, from 1 to 8 GiB: Python's workers need some too."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 4 * _GIB
    return min(8 * _GIB, max(_GIB, total // 3))
