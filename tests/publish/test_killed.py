"""A real `singerlake publish`, killed with its Java while it writes: a rerun finishes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import singerlake
from tests.build import commit_rows
from tests.cli.call import run

pytestmark = pytest.mark.usefixtures("spark")
COLUMNS = {"id": {"type": "integer"}, "text": {"type": "string"}}
SECONDS = 120
FORMATS = ["parquet", "delta"] if os.environ.get("SINGERLAKE_FAULTS") == "all" else ["parquet"]


def read(place: Path, form: str) -> int | None:
    """How many rows a reader finds; None before anything was published."""
    if form == "delta":
        if not DeltaTable.is_deltatable(str(place)):
            return None
        return sum(pq.read_metadata(file).num_rows for file in DeltaTable(place).file_uris())
    if not (place / "_latest.json").exists():
        return None
    folder = json.loads((place / "_latest.json").read_text())["folder"]
    (count,) = duckdb.sql(f"select count(*) from read_parquet('{place / folder}/*')").fetchall()[0]
    return int(count)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("form", FORMATS)
def test_sudden_death_while_it_publishes(tmp_path: Path, form: str) -> None:
    lake = singerlake.open(tmp_path / "lake", create=True)
    rows = [{"id": n, "text": str(n)} for n in range(20_000)]
    commit_rows(lake, "tap-a.b", COLUMNS, ["id"], [*rows])
    place = tmp_path / "place"
    args = ["publish", "--table", "tap_a.b", "--format", form, "--to", str(place)]
    args += ["--order-by", "id", "--file-size", "20kB"]
    command = [sys.executable, "-m", "singerlake_cli", "--lake", lake.store.uri, *args]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + SECONDS
    while not list(place.rglob("*.parquet")):  # the first file of the generation is there
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert read(place, form) in (None, 20_000)
    done = run(lake.store.uri, *args)  # a JVM of its own would prove no more
    assert done.exit_code == 0, done.output
    assert read(place, form) == 20_000, done.stdout
    assert "up to date" in run(lake.store.uri, *args).stdout
