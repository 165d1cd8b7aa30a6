"""How the tests are dealt out to the three processes of ``make test``.

A file goes to one process as a whole, so that what its tests share is made once. All but the last
process take the files that need Spark, and help with the rest once these are done; the last one
takes the rest. So one session less is begun, and warmed up, than where each process comes to need
one. Long files go first, or the last one would run alone. ``make test-all`` records in the file
``.test_durations`` how long the tests of each file and tier took, so that each command knows it of
the tests that it runs.

Three processes are for two cores: tests also wait for disks, locks, servers and other programs,
and of two processes one would then leave its core idle.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable
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


def note_needs(run: str, items: Iterable[pytest.Item], error: BaseException | None) -> None:
    """Tell the process that deals tests out what files need; it looks at no tests itself.

    Args:
        run: The run's id, which all its processes are told.
        items: The tests that are to run, as each process has chosen them.
        error: Why no test could be chosen, if pytest gave up over its arguments.
    """
    noted: dict[str, set[str]] = defaultdict(set)
    for item in items:
        spark = {"spark"} & {*needs.fixtures_of(item)}
        noted[scope_of(item.nodeid)] |= {needs.tier(needs.fixtures_of(item)), *spark}
    errors = [str(one) for one in error.args] if isinstance(error, pytest.UsageError) else []
    files = {scope: sorted(needed) for scope, needed in noted.items()}
    made = _place(run, str(os.getpid()))
    made.write_text(json.dumps({"errors": errors, "needs": files}), "utf-8")
    made.replace(_place(run))


def _noted(run: str) -> dict[str, list[str]]:
    """Return what was noted of each file: its tiers, and ``spark``.

    Raises:
        pytest.UsageError: The arguments name what is not there; xdist alone would not say so.
    """
    place = _place(run)
    noted = json.loads(place.read_text("utf-8"))
    place.unlink()
    if noted["errors"]:
        raise pytest.UsageError(*noted["errors"])
    files: dict[str, list[str]] = noted["needs"]
    return files


def _place(run: str, end: str = "needs") -> Path:
    return Path(tempfile.gettempdir(), f"singerlake-tests-{run}.{end}")


class WholeFiles(LoadScopeScheduling):
    """Deals out whole files, to the last process those that need no Spark, as long as it can."""

    _needs: dict[str, list[str]]
    _seconds: dict[str, float]

    def schedule(self) -> None:
        """Begin: all processes have found the tests."""
        if self.collection is None:
            self._needs = _noted(self.nodes[0].workerinput["testrunuid"])
            known = recorded(Path(self.config.rootpath))
            self._seconds = {
                scope: sum(known.get(scope, {}).get(tier, 0) for tier in needed)
                for scope, needed in self._needs.items()
            }
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        spark = node is not self.nodes[-1]
        best = max(
            self.workqueue,
            key=lambda scope: (("spark" in self._needs[scope]) is spark, self._seconds[scope]),
        )
        self.workqueue.move_to_end(best, last=False)
        super()._assign_work_unit(node)


def recorded(root: Path) -> dict[str, dict[str, float]]:
    """Return how many seconds the tests of each file and tier took, as far as that was recorded."""
    try:
        found: dict[str, dict[str, float]] = json.loads((root / DURATIONS).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


class Recorder:
    """Writes down how long each file took.

    Args:
        root: The folder of the file with what was recorded before.
        tiers: Those of which the run leaves out no test of the files that it names.
    """

    def __init__(self, root: Path, tiers: Collection[str] = needs.TIERS) -> None:
        self._root = root
        self._tiers = tiers
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test took, with what was made for it."""
        marks = report.keywords  # a test may also be named "test", but not "all" or "check"
        tier = next((one for one in (needs.ALL, needs.CHECK) if one in marks), needs.TEST)
        self._seconds[scope_of(report.nodeid)][tier] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write it down, unless the run ended early; what did not run stays as it was recorded."""
        if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        known = recorded(self._root)
        for scope, seconds in self._seconds.items():
            others = {t: s for t, s in known.get(scope, {}).items() if t not in self._tiers}
            known[scope] = others | seconds
        long = {
            scope: {tier: round(seconds[tier]) for tier in sorted(seconds) if seconds[tier] >= 1}
            for scope, seconds in sorted(known.items())
            if sum(seconds.values()) > _WORTHWHILE and (self._root / scope).exists()
        }
        (self._root / DURATIONS).write_text(_lines(long), "utf-8")


def _lines(seconds: dict[str, dict[str, int]]) -> str:
    """Return JSON with one line for each file."""
    lines = (f" {json.dumps(scope)}: {json.dumps(of)}" for scope, of in seconds.items() if of)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def tiers_to_record(config: pytest.Config) -> Collection[str]:
    """Return the tiers whose durations are to be recorded: those of which all tests run."""
    option = config.option
    some = (
        option.keyword or option.deselect or option.maxfail or any("::" in a for a in config.args)
    )
    if os.environ.get(RECORD) != "record" or some or getattr(option, "lf", False):
        return ()
    tiers = (
        [one.strip() for one in option.markexpr.split(" or ")] if option.markexpr else needs.TIERS
    )
    return tiers if {*tiers} <= {*needs.TIERS} else ()
