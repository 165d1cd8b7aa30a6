"""The tap beside ``zcat`` of the same files, and a second run that finds nothing new.

What they put out goes through a pipe, and is taken by a program that does no more than that.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from bench import harness
from bench.harness import BIN, Cost

TAP, ZCAT, SECOND = "tap", "zcat", "tap, nothing new"
SECOND_GOAL = 0.6
QUIET = {"LOGLEVEL": "WARNING"}


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: Records in the lake.
        rounds: How often.
    """
    source = harness.messages(folder / "one.jsonl", rows)
    lake, settings, state = folder / "lake", folder / "config.json", folder / "state.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "tap-bench"}))
    harness.command([BIN / "target-singerlake", "--config", settings], stdin=source)
    files = sorted(lake.glob("raw/*/*/*/*.singer.gz"))
    tap: list[str | Path] = [BIN / "tap-singerlake", "--config", settings]
    _check(tap, source, folder / "out.jsonl", state)
    times = harness.rounds(
        {
            TAP: functools.partial(_piped, tap),
            ZCAT: functools.partial(_piped, ["zcat", *files]),
            SECOND: functools.partial(_piped, [*tap, "--state", state]),
        },
        rounds,
        warm_up=True,
    )
    # It puts out the SCHEMA and the STATE, and no record.
    ratio = times[TAP].median / times[ZCAT].median
    second = times[SECOND].median
    return "\n\n".join(
        [
            f"{rows:,} records, {source.stat().st_size / 1e6:,.0f} MB in {len(files)} files. "
            f"{harness.machine('singer-sdk', 'isal')}.",
            harness.times_table(times),
            f"The tap takes {ratio:.2f}× the time of zcat, start-up included; the goal, below 1, is "
            f"{_met(ratio < 1)}. With nothing new it takes {harness.number(second)} s; the goal, "
            f"{SECOND_GOAL} s, is {_met(second <= SECOND_GOAL)}.",
        ]
    )


def _met(met: bool) -> str:
    return "met" if met else "missed"


def _piped(command: Sequence[str | Path]) -> Cost:
    return harness.command(command, take=_swallow, env=QUIET)


def _swallow(pipe: IO[bytes]) -> None:
    subprocess.run(["cat"], check=True, stdin=pipe, stdout=subprocess.DEVNULL)


def _check(tap: Sequence[str | Path], source: Path, out: Path, state: Path) -> None:
    """Make sure that the lines come out as they went in, and keep the last STATE."""
    harness.command(tap, stdout=out)
    with source.open("rb") as went_in, out.open("rb") as came_out:
        assert _digest(went_in) == _digest(came_out)
    last = subprocess.run(["tail", "-n", "1", out], check=True, stdout=subprocess.PIPE).stdout
    state.write_text(json.dumps(json.loads(last)["value"]))
    harness.command([*tap, "--state", state], stdout=out)
    with out.open("rb") as file:
        assert not any(line.startswith(b'{"type": "RECORD"') for line in file)
    out.unlink()


def _digest(lines: Iterable[bytes]) -> str:
    """Of all lines but the STATEs, each SCHEMA once, in order."""
    digest = hashlib.sha256()
    for line in lines:
        if not line.startswith((b'{"type": "STATE"', b'{"type":"STATE"')):
            digest.update(line)
    return digest.hexdigest()
