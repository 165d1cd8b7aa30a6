"""Tools that take a snapshot as an Arrow stream, in an environment of their own.

PySpark runs with no pandas 3, which is the first that takes such streams.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import apart

TOOLS = {
    "pandas": "import pandas\nrows = pa.table(pandas.DataFrame.from_arrow(snapshot))",
    "ibis": "import ibis\nrows = ibis.memtable(snapshot).to_pyarrow()",
    "datafusion": (
        "import datafusion\n"
        "rows = datafusion.SessionContext().from_arrow(snapshot).to_arrow_table()"
    ),
}
"""What each does with a snapshot."""
_PROGRAM = """
import gc, json, sys
import pyarrow as pa
import singerlake
from singerlake.log.lease import leases

table = singerlake.open(sys.argv[1])["tap.s"]
snapshot = table.at(engine="local")
exec(sys.argv[2])
expected = snapshot.to_arrow().sort_by("id")
gc.collect()
print(json.dumps({
    "rows": rows.num_rows,
    "names": rows.column_names == expected.column_names,
    "values": rows.sort_by("id").to_pylist() == expected.to_pylist(),
    "leases": len(leases(table.store, table.name)),
}))
"""


def installed() -> Path:
    """Return the environment's Python; see :func:`tests.apart.installed`."""
    return apart.installed(".venv-tools")


def compared(python: Path, lake: Path, tool: str) -> dict[str, int | bool]:
    """Give a tool the snapshot of ``tap.s``, and compare its rows with those of ``to_arrow()``."""
    words = [python, "-c", _PROGRAM, lake, TOOLS[tool]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, int | bool] = json.loads(done.stdout)
    return found


if __name__ == "__main__":  # the Makefile installs it while the first tests run
    installed()
