"""The bar: on a terminal's stderr, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

CODE = (
    "import time\n"
    "from singerlake_cli.working import follow, working\n"
    "follow(lambda: (1, 2))\n"
    "with working('freezing'):\n    time.sleep(0.7)\n"
    "print('done')\n"
)


def test_a_terminal_gets_a_bar() -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, env=env)
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"freezing" in shown
    assert done.stdout == b"done\n"


def test_a_pipe_gets_none() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")
