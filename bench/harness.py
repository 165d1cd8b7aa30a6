"""What all topics share: rounds in turn, times with their spread, tables for people."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Cost:
    """What one run of a case cost.

    Attributes:
        seconds: By the clock.
        cpu: Seconds of processor, user and system; 0 where it was not measured.
        peak: Largest resident memory, bytes; 0 where it was not measured. Of a command never
            less than what this process has had, for the system counts from the fork on.
    """

    seconds: float
    cpu: float = 0.0
    peak: int = 0


@dataclass
class Times:
    """All runs of one case."""

    costs: list[Cost] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(cost.seconds for cost in self.costs)

    @property
    def spread(self) -> str:
        seconds = [cost.seconds for cost in self.costs]
        return f"{number(min(seconds))}–{number(max(seconds))}"

    @property
    def peak(self) -> int:
        return max(cost.peak for cost in self.costs)


Case = Callable[[], Cost]


def rounds(
    cases: Mapping[str, Case], count: int, *, warm_up: bool = False, say: bool = True
) -> dict[str, Times]:
    """Run each case in turn, round after round, so that a slow minute meets all of them.

    Args:
        cases: By name; each returns what it cost, and checks its own result.
        count: Rounds that count.
        warm_up: Whether one more goes before them that does not.
        say: Whether to tell of progress on standard error.
    """
    times = {name: Times() for name in cases}
    for turn in range(-1 if warm_up else 0, count):
        for name, case in cases.items():
            cost = case()
            if say:
                print(f"  {turn + 1}/{count} {name}: {cost.seconds:.3f} s", file=sys.stderr)
            if turn >= 0:
                times[name].costs.append(cost)
    return times


def timed(work: Callable[[], Any]) -> Cost:
    """What a call in this process costs by the clock."""
    started = time.perf_counter()
    work()
    return Cost(time.perf_counter() - started)


def processor() -> float:
    """Seconds of processor of this process and all that it began."""
    spent: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        # The parent; then user and system, its own and of those it waited for.
        spent[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in spent.items() if parent in family} - family:
        family |= more
    return sum(spent[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def command(
    arguments: Sequence[str | Path],
    *,
    stdin: Path | None = None,
    stdout: Path | None = None,
    take: Callable[[IO[bytes]], object] | None = None,
    env: Mapping[str, str] | None = None,
) -> Cost:
    """What a command costs, from its start to its end.

    Args:
        arguments: The command line.
        stdin: A file to read from.
        stdout: A file to write to; nowhere by default.
        take: Reads its standard output through a pipe instead, to the end.
        env: More environment variables.
    """
    with (
        (stdin or Path(os.devnull)).open("rb") as source,
        (stdout or Path(os.devnull)).open("wb") as sink,
    ):
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=source,
            stdout=subprocess.PIPE if take else sink,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )
        if take:
            assert process.stdout is not None
            take(process.stdout)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (process.returncode, arguments)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def fresh(folder: Path) -> Path:
    """The path of a folder, and nothing there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def messages(path: Path, rows: int, streams: int = 1, *more: str) -> Path:
    """A file of generated messages, made once."""
    if not path.exists():
        make = [sys.executable, str(HERE / "make_messages.py"), str(rows), str(streams), *more]
        with path.open("wb") as out:
            subprocess.run(make, check=True, stdout=out)
    return path


def number(value: float) -> str:
    """Three digits, as a person would write them."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all but the first column to the right."""
    lines = [
        f"| {' | '.join(headings)} |",
        f"|{'|'.join(['---', *['---:'] * (len(headings) - 1)])}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines)


def times_table(times: Mapping[str, Times], rows: Mapping[str, int] | int | None = None) -> str:
    """Median, spread and, where rows are given, rate and peak memory of each case."""
    peaks = any(case.peak for case in times.values())
    headings = ["", "median s", "fastest–slowest"]
    headings += ["records/s"] if rows else []
    headings += ["peak MiB"] if peaks else []
    lines = []
    for name, case in times.items():
        line = [name, number(case.median), case.spread]
        if rows:
            count = rows if isinstance(rows, int) else rows[name]
            line.append(f"{count / case.median:,.0f}")
        if peaks:
            line.append(f"{case.peak / 2**20:,.0f}" if case.peak else "")
        lines.append(line)
    return table(headings, lines)


def machine(*packages: str) -> str:
    """What was measured on, and the versions of what was measured."""
    found = [f"{name} {metadata.version(name)}" for name in packages]
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(found)}"
