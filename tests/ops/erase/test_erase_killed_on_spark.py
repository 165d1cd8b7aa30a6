"""A real `singerlake erase` on Spark, killed at some moment: the same command finishes it.

It may do so in another process, without Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.erase.plan import EraseOptions
from singerlake_cli.commands import erase as command
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.ops.vacuum.plain_table import states

pytestmark = pytest.mark.usefixtures("spark")
NAME = TableName("tap", "t")
COLUMNS = {"id": {"type": "integer"}, "name": {"type": "string"}}
ASK = ("erase", str(NAME), "--key", "7", "--reason", "request 12")
SECONDS = 120
BEFORE = 3
"""Transactions before the erasure: two of rows, and a version between."""


def files(lake: Lake) -> int:
    return len(list(Path(lake.store.uri, NAME.folder).rglob("*.singer.gz")))


def entries(lake: Lake) -> int:
    return len(list(Path(lake.store.uri, NAME.log).glob("*.json")))


MOMENTS: dict[str, Callable[[Lake], bool]] = {
    "a file is written": lambda lake: files(lake) > 2,
    "it is committed": lambda lake: entries(lake) >= BEFORE + 2,
    "it is announced": lambda lake: entries(lake) >= BEFORE + 1,
    "it begins to delete": lambda lake: entries(lake) >= BEFORE + 3,
    "a file is deleted": lambda lake: entries(lake) >= BEFORE + 3 and files(lake) < 4,
}
TRIED = [
    moment if n == 0 else pytest.param(moment, marks=pytest.mark.variant)
    for n, moment in enumerate(MOMENTS)
]
"""The others begin with a commit or a deletion, behind which tests/faults kills a process that has
no Java of its own."""


def killed_when(lake: Lake, moment: Callable[[Lake], bool]) -> None:
    uri = lake.store.uri
    process = subprocess.Popen(
        [sys.executable, "-m", "singerlake_cli", "--lake", uri, *ASK, "--engine", "spark"],
        start_new_session=True,
    )
    deadline = time.monotonic() + SECONDS
    while not moment(lake):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("moment", TRIED)
def test_sudden_death(lake: Lake, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_rows(lake, str(NAME), COLUMNS, ["id"], [{"id": n, "name": "a"} for n in range(50)])
    run_json(lake, "freeze", str(NAME))
    commit_rows(lake, str(NAME), COLUMNS, ["id"], [{"id": n, "name": "b"} for n in range(9)])
    table = lake.table(NAME)
    before = states(table, table.snapshot())
    left = {
        number: [row for row in rows if row.record["id"] != 7] for number, rows in before.items()
    }
    assert table.snapshot().number == BEFORE
    killed_when(lake, MOMENTS[moment])
    found = states(table, table.snapshot())
    assert {number: found[number] for number in before} in (before, left), "all or nothing"
    # Whoever is dead is known to be after a minute; the test does not wait for so long.
    monkeypatch.setattr(command, "EraseOptions", partial(EraseOptions, stale_seconds=1))
    done = run(lake, *ASK)
    assert done.exit_code in (0, 3), done.output  # 3: nothing was left to do
    assert "not deleted yet" not in done.stdout
    document = run_json(lake, "erase", "--search", str(NAME), "--key", "7")
    assert document["found"] == document["not_read"] == []
    assert run(lake, "verify", str(NAME)).exit_code == 0
    found = states(table, table.snapshot())
    assert {number: found[number] for number in before} == left
    (version,) = table.snapshot().frozen
    assert (version.rows, len(version.erased)) == (49, 1)
