"""A JVM on its way, begun before the session that it is for.

Java takes 0.4 to 0.9 s until it listens, and Python 0.3 s to import what a job needs. A caller
that knows that it will ask for a session calls :func:`ahead` first, and both go on at once. That
saves the shorter of the two, a tenth of a query (bench/NOTES.md). Nothing here imports
pyspark.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from singerlake.engine.spark.jvm import java
from singerlake.engine.spark.jvm.settings import default_master, settings_for
from singerlake.errors import RuntimeMissingError, UsageError

LOG_NAME = "spark.log"
_ahead: list[Launch] = []
_taken: list[Launch] = []


@dataclass
class Launch:
    """The settings that a session is started with.

    Attributes:
        asked: The master and settings that were asked for.
        folder: For all files of Spark and Java; deleted at exit.
        settings: All of Spark's settings.
        starting: The JVM; None before :meth:`begin`, or where Spark's own script starts it.
        whole: Whether the JVM has all that Spark brings; else only what a lake's own jobs ask for.
    """

    asked: tuple[str | None, dict[str, str]]
    folder: Path
    settings: dict[str, str]
    starting: java.Starting | None = None
    whole: bool = True

    @property
    def master(self) -> str:
        """Spark's master; empty where spark-submit has named it already."""
        return self.settings.get("spark.master", "")

    @property
    def log(self) -> Path:
        """The file for all that Java and Spark print."""
        return self.folder / LOG_NAME

    @property
    def direct(self) -> bool:
        """Whether the JVM is started here, neither by spark-submit nor by Spark's script."""
        return "PYSPARK_GATEWAY_PORT" not in os.environ and java.starts_directly(self.master)

    def begin(self, runtime: java.Java) -> java.Starting:
        """Start the JVM, once, and do not wait for it. It ends at exit, if not before.

        Raises:
            RuntimeMissingError: It cannot be run.
        """
        if self.starting is None:
            # Signals' handlers run in the main thread only. So Ctrl-C cannot come between the start
            # of the process and the note of it: nobody would end it, and it would write into the
            # folder after that was deleted.
            with ThreadPoolExecutor(1) as apart:
                return apart.submit(self._begin, runtime).result()
        return self.starting

    def _begin(self, runtime: java.Java) -> java.Starting:
        starting = java.begin(runtime, self.settings, self.log, whole=self.whole)
        self.starting = starting
        atexit.register(_end, starting, os.getpid())
        return starting


def ahead(master: str | None = None, conf: Mapping[str, str] | None = None) -> None:
    """Start the JVM for a command's session, about to be asked for with the same arguments.

    Where that cannot be, nothing happens: the session says what is wrong. Without settings of the
    user's, which may name anything, nobody asks it for more than a lake's own jobs do.
    """
    if _ahead or _runs_already():
        return
    begun = _prepared(master, conf)
    if not begun.direct:
        return
    begun.whole = bool(conf)
    _ahead.append(begun)
    try:
        begun.begin(java.find(begun.master))
    except RuntimeMissingError:
        _ahead.clear()


def is_other(master: str | None, conf: Mapping[str, str] | None) -> bool:
    """Tell whether a session was begun in this process with other arguments than these."""
    return bool(_taken) and _taken[-1].asked != (master, dict(conf or {}))


def take(master: str | None, conf: Mapping[str, str] | None) -> Launch:
    """Take what :func:`ahead` began for these arguments, or else a new one, not begun."""
    _taken[:] = [_took(master, conf)]
    return _taken[-1]


def give_back(launched: Launch) -> None:
    """End what was taken, where no session came of it."""
    if launched.starting is not None:
        launched.starting.end()
    forget()


def forget() -> None:
    """Forget what was taken: it has ended."""
    _taken.clear()


def _took(master: str | None, conf: Mapping[str, str] | None) -> Launch:
    begun = _ahead.pop() if _ahead else None
    if begun is not None and begun.starting is not None:
        if begun.asked == (master, dict(conf or {})):
            return begun
        begun.starting.end()
    return _prepared(master, conf)


def _end(starting: java.Starting, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has no part in it
        starting.end()


def _prepared(master: str | None, conf: Mapping[str, str] | None) -> Launch:
    check_master((conf or {}).get("spark.master") or master or default_master())
    folder = scratch_folder()
    settings = settings_for(master or default_master(), folder) | dict(conf or {})
    return Launch((master, dict(conf or {})), folder, settings)


def _runs_already() -> bool:
    """Tell whether this process has a JVM."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


# Whether Spark's master can be reached: asked before Java starts, for Spark tries for minutes.

TIMEOUT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
"""For each address, and for all of them."""
_STANDALONE, _KUBERNETES = "spark://", "k8s://"
_LOCAL = re.compile(r"local(-cluster)?(\[[0-9*, ]+\])?")
_PORTS = {"https": 443, "http": 80}


def check_master(master: str) -> None:
    """Make sure that a master is one, and that something listens at its address.

    Args:
        master: Spark's master URL; empty where spark-submit has chosen one already.

    Raises:
        UsageError: It is no master URL.
        RuntimeMissingError: Nothing listens there.
    """
    if not master or master == "yarn" or _LOCAL.fullmatch(master):
        return
    refused = []
    try:
        addresses = list(_addresses(master))
        for host, port in addresses:
            reason = _refusal(host, port, TOTAL_SECONDS / len(addresses))
            if reason is None:
                return
            refused.append(f"{host}:{port}: {reason}")
    except ValueError:  # of a host too, whose name cannot be one: a..b
        addresses = []
    if not addresses:
        raise UsageError(
            f"{master!r} is not a Spark master: write local[4], spark://host:7077, yarn or "
            "k8s://https://host:443"
        )
    raise RuntimeMissingError(
        f"no Spark master answers at {master} ({'; '.join(refused)}): start it, or name "
        "another with --master"
    )


def _refusal(host: str, port: int, seconds: float) -> str | None:
    """Explain why no address of a host answers within the time; None if one answers.

    Raises:
        ValueError: The host's name cannot be one.
    """
    reason = "no address"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return _words(error)
    for *_, address in addresses:
        try:
            timeout = min(TIMEOUT_SECONDS, seconds / len(addresses))
            socket.create_connection((str(address[0]), port), timeout).close()
        except OSError as error:
            reason = _words(error)
        else:
            return None
    return reason


def _words(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """The hosts and ports in a master URL.

    Raises:
        ValueError: A port is no number.
    """
    if master.startswith(_STANDALONE):
        for text in master.removeprefix(_STANDALONE).split(","):
            address = urlsplit(f"//{text}")
            if address.hostname and address.port:
                yield address.hostname, address.port
    elif master.startswith(_KUBERNETES):
        url = master.removeprefix(_KUBERNETES)
        address = urlsplit(url if "://" in url else f"https://{url}")
        if address.hostname and address.scheme in _PORTS:
            yield address.hostname, address.port or _PORTS[address.scheme]


# The folder for all files of Spark and Java; those of killed processes go with the next
# start.
#
# A folder holds a file that its process keeps locked for as long as it lives. The system
# lets go of the lock however the process ends, so a folder whose file anybody can lock is
# a dead one's.

PREFIX = "singerlake-spark-"
ALIVE = "alive"
_LOCKING = 60.0
"""Seconds within which a process has surely locked the file that it made."""
_WITHOUT = 86_400.0
"""Seconds after which a folder without such a file is a dead one's, too: its process was killed
before it made the file, or is of a release that made none."""


def scratch_folder() -> Path:
    """Make a fresh folder for this process, deleted at exit. Removes those that were left."""
    parent = Path(tempfile.gettempdir())
    _remove_left(parent)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    handle = os.open(made / ALIVE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)  # never closed: the lock is the liveness marker
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _remove_left(parent: Path) -> None:
    """Remove dead processes' folders of this user. Never raises: no job depends on it."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    if _is_left(Path(entry.path), entry.stat(follow_symlinks=False)):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(path: Path, status: os.stat_result) -> bool:
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    try:
        handle = os.open(path / ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _WITHOUT
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return time.time() - os.fstat(handle).st_mtime > _LOCKING
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
