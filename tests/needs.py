"""What a test needs beside Python, its tier, which follows from that, and a guard of the tiers.

A test asks for what it needs by a fixture, its own or one that a fixture of its asks for. So its
tier follows from the names of its fixtures, and nobody keeps a list:

- ``check``: no fixture of this module, and no Spark. The guard fails a test of this tier that
  starts a process or opens a connection.
- ``test``: processes, local servers, many cases, and each operation once on Spark, as the fixture
  ``each_operation`` says.
- ``all``: everything else, such as what the fixture ``engine`` runs on Spark besides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECK, TEST, ALL = TIERS = ("check", "test", "all")
MORE = pytest.mark.more
"""Of one case of a test: others prove nearly the same, so it is left to ``make test-all``."""
LOCAL = "local"
"""The engine that needs no Spark, as the parameter of a test's ``engine``."""
_SOCKETS = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"}
_PROCESSES = {
    "subprocess.Popen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.exec",
    "os.system",
}


@pytest.fixture(scope="session")
def processes() -> None:
    """Let a test start processes."""


@pytest.fixture(scope="session")
def services() -> None:
    """Let a test talk to a server of this machine."""


@pytest.fixture(scope="session")
def environments() -> None:
    """Let a test use software that has an environment of its own, such as Meltano or PostgreSQL."""


@pytest.fixture(scope="session")
def many_cases() -> None:
    """Let a test take more than two seconds: it tries many cases, or much data."""


@pytest.fixture(scope="session")
def long_runs() -> None:
    """Let a test take minutes: it tries very many cases of what shorter tests prove for a few."""


@pytest.fixture(scope="session")
def each_operation(spark: SparkSession) -> None:
    """Begin the Spark session for tests that run an operation once, as its users do."""


def tier(fixtures: Iterable[str]) -> str:
    """Return the tier of a test with fixtures of these names."""
    names = {*fixtures}
    if names & {"environments", "long_runs"}:
        return ALL
    if "spark" in names:
        return TEST if "each_operation" in names else ALL
    return TEST if names & {"processes", "services", "many_cases"} else CHECK


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark tests by what they need: with their tier, ``spark`` and ``slow``."""
    for item in items:
        names = fixtures_of(item)
        item.add_marker(tier(names))
        if "spark" in names:
            item.add_marker("spark")
        if "environments" in names:
            item.add_marker("slow")


def fixtures_of(item: pytest.Item) -> Iterable[str]:
    """Return the names of a test's fixtures, and of those that these ask for."""
    names: Iterable[str] = getattr(item, "fixturenames", ())
    if item.get_closest_marker(MORE.name):  # pytest lets no single case of a test ask for fixtures
        names = [*names, "long_runs"]
    params = getattr(getattr(item, "callspec", None), "params", {})
    if params.get("engine", LOCAL) != LOCAL:  # the fixture `engine` asks for it while the test runs
        return [*names, "spark"]
    return names


class _Guard:
    """What a test of the tier ``check`` does that none of this tier may.

    Attributes:
        on: Whether such a test runs.
        broken: What it did.
    """

    on = False
    broken: list[str] = []  # noqa: RUF012  # one process, one guard


_guard = _Guard()


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _guard.on or not (event in _PROCESSES or event in _SOCKETS):
        return
    if event in _SOCKETS and (_java_runs() or _is_a_file(args)):
        return
    _guard.broken.append(f"{event} {args!r}")
    raise RuntimeError(f"a test of the tier {CHECK} may not: {event}")


def _java_runs() -> bool:
    """Whether an earlier test has begun a session: Python tells it at any time what it dropped."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None


def _is_a_file(args: tuple[Any, ...]) -> bool:
    """Whether a socket is one of those that are files."""
    return len(args) > 1 and isinstance(args[1], str | bytes) and hasattr(args[0], "family")


sys.addaudithook(_audit)


@contextmanager
def guarded(item: pytest.Item) -> Iterator[None]:
    """Fail a test of the tier ``check`` that starts a process or opens a connection.

    It fails even if the code under test takes the error for one of its own.
    """
    before = _guard.on, _guard.broken
    _guard.on, _guard.broken = item.get_closest_marker(CHECK) is not None, []
    try:
        yield
    finally:
        broken = _guard.broken
        _guard.on, _guard.broken = before
        if broken:  # in place of whatever error that led to
            pytest.fail(
                "this test needs no fixture of tests/needs.py, so it may start no process and open "
                f"no connection; ask for `processes` or `services`: {'; '.join(broken)[:2000]}",
                pytrace=False,
            )
