"""DuckDB with its extensions for Iceberg, Delta and Avro, offline, in an environment of its own.

The extensions come as wheels, and each is of one release of DuckDB alone.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
from pathlib import Path

from tests.meltano.project import ROOT

ENVIRONMENT = ROOT / ".venv-duckdb"
EXTENSIONS = ("avro", "iceberg", "delta")
_PROGRAM = """
import glob, importlib.util, os, sys
import duckdb
connection = duckdb.connect()
for name in sys.argv[3:]:
    found = importlib.util.find_spec(f"duckdb_extension_{name}").origin
    (path,) = glob.glob(os.path.dirname(found) + "/extensions/*/*.duckdb_extension")
    connection.execute(f"LOAD '{path}'")
connection.execute(f"COPY ({sys.argv[1]}) TO '{sys.argv[2]}' (FORMAT parquet)")
"""


class NotInstalledError(Exception):
    """It is not there, and cannot be had: the registry is out of reach."""


def installed() -> Path:
    """The environment's Python, installed from the registry by the Makefile at first use.

    Raises:
        NotInstalledError: The registry does not answer.
    """
    ENVIRONMENT.mkdir(exist_ok=True)
    with (ENVIRONMENT / "lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--quiet", f"PYTHON={sys.executable}", ".venv-duckdb/installed"],
            cwd=ROOT,
            check=False,
            timeout=300,
        )
    if done.returncode:
        try:
            socket.create_connection(("pypi.org", 443), timeout=10).close()
        except OSError as error:
            raise NotInstalledError(
                "DuckDB with its extensions is not installed, and the registry is out of reach"
            ) from error
        done.check_returncode()
    return ENVIRONMENT / "bin" / "python"


def query(python: Path, sql: str, to: Path) -> Path:
    """Run a query, and give the Parquet file with what it found."""
    subprocess.run([python, "-c", _PROGRAM, sql, to, *EXTENSIONS], check=True, timeout=120)
    return to


if __name__ == "__main__":  # the Makefile installs it beside the first tests
    installed()
