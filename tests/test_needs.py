"""The tiers of the tests follow from their fixtures, and a guard holds tests to them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import needs


class Item:
    """As much of a test as the guard and the tiers look at."""

    def __init__(self, *fixtures: str) -> None:
        self.fixturenames = fixtures
        self.marks: list[str] = []

    def add_marker(self, name: str) -> None:
        self.marks.append(name)

    def get_closest_marker(self, name: str) -> object:
        return name if name in self.marks else None


def marked(*fixtures: str) -> Any:
    item: Any = Item(*fixtures)
    needs.mark([item])
    return item


@pytest.mark.parametrize(
    ("fixtures", "marks"),
    [
        ((), ["check"]),
        (("lake", "tmp_path"), ["check"]),
        (("lake", "processes"), ["test"]),
        (("s3_port", "services"), ["test"]),
        (("spark",), ["all", "spark"]),
        (("spark", "processes"), ["all", "spark"]),
        (("spark", "each_operation"), ["test", "spark"]),
        (("environments",), ["all", "slow"]),
        (("environments", "each_operation", "spark"), ["all", "spark", "slow"]),
        (("many_cases",), ["test"]),
        (("long_runs",), ["all"]),
    ],
)
def test_a_tier_follows_from_fixtures(fixtures: tuple[str, ...], marks: list[str]) -> None:
    assert marked(*fixtures).marks == marks


@pytest.mark.parametrize(("kind", "marks"), [("local", ["check"]), ("spark", ["all", "spark"])])
def test_tier_of_engine_test_follows_from_engine(kind: str, marks: list[str]) -> None:
    item: Any = Item("engine")
    item.callspec = SimpleNamespace(params={"engine": kind})
    needs.mark([item])
    assert item.marks == marks


def test_a_case_that_is_marked_is_in_the_tier_all() -> None:
    item: Any = Item("spark", "each_operation")
    item.marks.append("more")
    needs.mark([item])
    assert item.marks == ["more", "all", "spark"]


def start_a_process() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def fork() -> None:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)


def spawn() -> None:
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
    os.waitpid(child, 0)


def connect() -> None:
    with socket.socket() as one, suppress(ConnectionRefusedError):
        one.connect(("127.0.0.1", 9))


def serve() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


FORBIDDEN = [start_a_process, fork, spawn, connect, serve]


@pytest.mark.parametrize("do", FORBIDDEN)
def test_in_the_tier_check_it_fails(do: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # An earlier test of this process may have begun a session.
    monkeypatch.setattr(needs, "_java_runs", lambda: False)
    with (
        pytest.raises(pytest.fail.Exception, match="ask for"),
        needs.guarded(marked()),
        pytest.raises(RuntimeError, match="tier check"),
    ):
        do()


def test_it_fails_although_the_error_is_taken_for_another() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="subprocess"),
        needs.guarded(marked()),
        suppress(Exception),
    ):
        start_a_process()


@pytest.mark.usefixtures("processes", "services")
@pytest.mark.parametrize("do", FORBIDDEN)
def test_a_test_that_asks_may(do: Any) -> None:
    do()


def test_a_socket_that_is_a_file_may_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("odd")
