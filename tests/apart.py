"""Environments apart from the project's own, which the Makefile installs at first use."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class NotInstalledError(Exception):
    """An environment is not there, and cannot be had: the registry is out of reach."""


def installed(name: str) -> Path:
    """Return an environment's Python, installed from the registry at first use.

    Args:
        name: Its folder, such as ``.venv-duckdb``, for which the Makefile has a rule.

    Raises:
        NotInstalledError: The registry does not answer.
    """
    environment = ROOT / name
    environment.mkdir(exist_ok=True)
    with (environment / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--quiet", f"PYTHON={sys.executable}", f"{name}/installed"],
            cwd=ROOT,
            check=False,
            timeout=300,
        )
    if done.returncode:
        try:
            socket.create_connection(("pypi.org", 443), timeout=10).close()
        except OSError as error:
            raise NotInstalledError(
                f"{name} is not installed, and the registry is out of reach"
            ) from error
        done.check_returncode()
    return environment / "bin" / "python"
