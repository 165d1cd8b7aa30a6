"""First commits of many streams in the threads of fresh processes, on a machine that is busy.

What a process builds at its first use, it builds while eight threads commit at once. Two threads
that built one of msgspec's types at the same time were the end of one run in 25.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.faults import plain
from tests.target.harness import command, record, run, schema, state, text

STREAMS = 16
AT_ONCE = 3
BUSY_LOOPS = 2
# Threads change places as often as they can, so that a moment of danger is met at once.
HURRIED = (
    "import faulthandler, sys; faulthandler.enable(); sys.setswitchinterval(1e-6); "
    "from target_singerlake.target import main; main()"
)


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep the machine's cores busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def messages(rounds: int) -> bytes:
    """A STATE after each row of all streams, so that each commits them side by side."""
    streams = [f"stream_{n}" for n in range(STREAMS)]
    lines = [schema(stream) for stream in streams]
    for number in range(rounds):
        lines += [record(stream, {"id": number}) for stream in streams] + [state(number)]
    return text(lines)


def run_once(folder: Path, before: Path, number: int) -> str:
    """One run onto tables that are there, so that it reads before it writes; what went wrong."""
    lake = folder / "lake"
    shutil.copytree(before, lake)
    args, env = command(lake, commit_bytes=1)
    args[1:3] = ["-c", HURRIED]
    done = subprocess.run(args, input=messages(1), capture_output=True, env=env, check=False)
    states = done.stdout.splitlines()
    if done.returncode or len(states) != 1:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        ended = f"exit {done.returncode}, {len(states)} STATEs"
        return f"run {number}: {ended}: {' | '.join(said[-12:])}"
    rows = [len(table.messages()) for table in plain.tables(plain.dump_folder(lake)).values()]
    return "" if rows == [2] * STREAMS else f"run {number}: rows {rows}"


def soak_threads(runs: int, loops: int = BUSY_LOOPS) -> list[str]:
    """Many runs, some at once; what went wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, busy(loops):
        before = Path(name, "before")
        run(before, messages(1))

        def one(number: int) -> str:
            with tempfile.TemporaryDirectory(dir=name) as folder:
                return run_once(Path(folder), before, number)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = [said for said in pool.map(one, range(runs)) if said]
    print(
        f"  {runs:,} runs, {runs * STREAMS:,} first commits in threads, {len(wrong)} went wrong, "
        f"{time.monotonic() - began:.0f} s on {os.cpu_count()} cores, "
        f"Python {sys.version.split()[0]}"
    )
    return wrong
