"""How the tests are dealt out to the three processes of ``make test``.

A file goes to one process as a whole, so that what its tests share is made once. All but the last
process take the files that need Spark, and help with the rest once these are done; the last one
takes the rest. So one session less is begun, and warmed up, than where each process comes to need
one. Long files go first, or the last one would run alone: how long each took is recorded by
``make test-all``, in the file ``.test_durations``.

Three processes are for two cores: tests also wait for disks, locks, servers and other programs,
and of two processes one would then leave its core idle.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests import needs

DURATIONS = ".test_durations"
RECORD = "SINGERLAKE_DURATIONS"
"""Set to ``record`` in the environment, it has the run write down how long each file took."""
TOGETHER = ("tests/postgres",)
"""Folders whose files share what is dear: a PostgreSQL of their own."""
_WORTHWHILE = 1
"""Seconds of a file whose place in the order matters."""


def scope_of(nodeid: str) -> str:
    """Return what is dealt out as a whole: a test's file, or its folder."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def note_needs(run: str, items: Iterable[pytest.Item]) -> None:
    """Tell the process that deals tests out which files need Spark; it looks at no tests itself.

    Args:
        run: The run's id, which all its processes are told.
        items: The tests, as each process that runs some has found them.
    """
    spark = {scope_of(item.nodeid) for item in items if "spark" in needs.fixtures_of(item)}
    made = _place(run, str(os.getpid()))
    made.write_text(json.dumps(sorted(spark)), "utf-8")
    made.replace(_place(run))


def _place(run: str, end: str = "needs") -> Path:
    return Path(tempfile.gettempdir(), f"singerlake-tests-{run}.{end}")


class WholeFiles(LoadScopeScheduling):
    """Deals out whole files, to the last process those that need no Spark, as long as it can."""

    _spark: frozenset[str] = frozenset()
    _seconds: dict[str, float]

    def schedule(self) -> None:
        """Begin: all processes have found the tests."""
        if self.collection is None:
            place = _place(self.nodes[0].workerinput["testrunuid"])
            self._spark = frozenset(json.loads(place.read_text("utf-8")))
            place.unlink()
            self._seconds = recorded(Path(self.config.rootpath))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        spark = node is not self.nodes[-1]
        best = max(
            self.workqueue,
            key=lambda scope: ((scope in self._spark) is spark, self._seconds.get(scope, 0)),
        )
        self.workqueue.move_to_end(best, last=False)
        super()._assign_work_unit(node)


def recorded(root: Path) -> dict[str, float]:
    """Return how many seconds each file has taken, as far as that was recorded."""
    try:
        found: dict[str, float] = json.loads((root / DURATIONS).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


class Recorder:
    """Writes down how long each file took, where that is asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test took, with what was made for it."""
        self._seconds[scope_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write it down; of files that did not run, what was recorded before stays."""
        known = {**recorded(self._root), **self._seconds}
        long = {
            scope: round(seconds)
            for scope, seconds in sorted(known.items())
            if seconds > _WORTHWHILE and (self._root / scope).exists()
        }
        (self._root / DURATIONS).write_text(json.dumps(long, indent=1) + "\n", "utf-8")


def is_asked_for(config: pytest.Config) -> bool:
    """Whether durations are to be recorded: never of a run that leaves tests of a file out."""
    some = config.option.markexpr or config.option.keyword
    return os.environ.get(RECORD) == "record" and not some
