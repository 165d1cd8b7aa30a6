"""Spark's jars: first those that a lake's jobs on one machine may ask for, then the others.

Java opens a jar the first time that it looks for something behind it on the class path, and reads
the list of all that is in it. There is always something that is nowhere, so it opens all: 157,000
names in 280 jars, a third of what a small query takes. And each of Spark's jars may bring
something that starts with every session: that of MLlib begins by reading Scala's own types, a fifth
of what a query takes, for two functions that no lake asks for.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from singerlake.errors import RuntimeMissingError
from singerlake.extras import install_line

_OTHERS = re.compile(
    r"""
    # Cluster managers, and what they talk through.
    spark-(?:kubernetes|yarn) | kubernetes- | vertx- | volcano- | zjsonpatch | zookeeper | curator-
    # Hive, its metastore and its server; ORC needs hive-storage-api.
    | spark-hive | hive-(?!storage-api) | datanucleus- | derby | HikariCP | jdo-api | javax\.jdo
    | libthrift | libfb303 | jpam | super-csv | ST4 | antlr-runtime | javolution | commons-dbcp
    # Machine learning, graphs, streams of micro-batches, and their mathematics.
    | spark-(?:mllib|graphx|streaming|pipelines) | breeze | spire | cats-kernel | algebra | arpack
    | blas | lapack | JTransforms | JLargeArrays
    # Shells and servers for other programs.
    | spark-(?:connect|repl) | connect-repl | scala-compiler | jline
    # The web interface's answers to programs.
    | jersey- | hk2- | jaxb- | osgi-resource-locator | aopalliance
    """,
    re.VERBOSE,
)


def spark_home() -> Path:
    """Return the folder of the installed pyspark, found without importing it.

    Raises:
        RuntimeMissingError: It is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeMissingError(
            f"pyspark is not installed for {sys.executable}: {install_line('pyspark')}"
        )
    return Path(spec.origin).parent


def needed() -> list[str]:
    """List the jars that a lake's own jobs may ask for, in an order that stays.

    An archive of classes is for one class path, and for those that go on after it.
    """
    return [jar for jar in _jars() if not _OTHERS.match(Path(jar).name)]


def others() -> list[str]:
    """List the other jars, for sessions that may be asked for more than that."""
    return [jar for jar in _jars() if _OTHERS.match(Path(jar).name)]


def _jars() -> list[str]:
    return sorted(str(jar) for jar in (spark_home() / "jars").glob("*.jar"))
