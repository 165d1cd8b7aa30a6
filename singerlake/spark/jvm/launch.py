"""A JVM on its way, begun before the session that it is for.

Java takes 0.4 to 0.9 s until it listens, and Python 0.3 s to import what a job needs. A caller
that knows that it will ask for a session calls :func:`ahead` first, and both go on at once. That
saves the shorter of the two, a tenth of a query (bench/NOTES.md). Nothing here imports
pyspark.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import RuntimeMissingError
from singerlake.spark.jvm import java, scratch
from singerlake.spark.jvm.masters import check_master
from singerlake.spark.jvm.settings import default_master, settings_for

LOG_NAME = "spark.log"
_ahead: list[Launch] = []
_taken: list[Launch] = []


@dataclass
class Launch:
    """What a session is started with.

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
        """Where all goes that Java and Spark print."""
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
    folder = scratch.folder()
    settings = settings_for(master or default_master(), folder) | dict(conf or {})
    return Launch((master, dict(conf or {})), folder, settings)


def _runs_already() -> bool:
    """Whether this process has a JVM."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None
