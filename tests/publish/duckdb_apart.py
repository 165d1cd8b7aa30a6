"""DuckDB with its extensions for Iceberg, Delta and Avro, offline, in an environment of its own.

The extensions come as wheels, and each is of one release of DuckDB alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import apart

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


def installed() -> Path:
    """Return the environment's Python; see :func:`tests.apart.installed`."""
    return apart.installed(".venv-duckdb")


def query(python: Path, sql: str, to: Path) -> Path:
    """Run a query, and give the Parquet file with what it found."""
    subprocess.run([python, "-c", _PROGRAM, sql, to, *EXTENSIONS], check=True, timeout=120)
    return to


if __name__ == "__main__":  # the Makefile installs it beside the first tests
    installed()
