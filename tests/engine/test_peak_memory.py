"""At the most work that counts as small, no operation takes a GiB of memory in this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from singerlake.engine.work import SMALL, Work
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.needs import MORE

pytestmark = [MORE, pytest.mark.usefixtures("many_cases", "processes")]
MOST = 1 << 30
FEW_CELLS = 3
COLUMNS = 200
SPARSE = {
    "id": {"type": "integer"},
    **{f"c{n}": {"type": ["null", "string"]} for n in range(COLUMNS - 1)},
}
TWO = {"id": {"type": "integer"}, "name": {"type": "string"}}


def narrow(number: int, text: str) -> dict[str, Any]:
    return {"id": number, "name": text}


def sparse(number: int, text: str) -> dict[str, Any]:
    return {"id": number, **{f"c{(number + n) % (COLUMNS - 1)}": text for n in range(FEW_CELLS)}}


def texts(number: int, text: str) -> dict[str, Any]:
    return {"id": number, "name": f"{text}{number:0>100000}"}


SHAPES: Mapping[str, tuple[Mapping[str, Any], Callable[[int, str], dict[str, Any]], int]] = {
    "many rows": (TWO, narrow, 130_000),
    "rows with few of many columns": (SPARSE, sparse, SMALL.cells // COLUMNS // 2),
    "long texts": (TWO, texts, SMALL.bytes // 2 // 100_200),
}
"""Columns, a row of a number, and rows of each of two transactions, which have the same keys."""

OPERATIONS = {
    "freeze": "table.freeze()",
    "verify": "table.verify(1)",
    "diff": "\nwith table.diff('@1') as found: sum(map(len, found.flat_rows().batches()))",
    "read": "sum(map(len, table.at(1).scanner()))",
    "revert": "table.revert(transaction=1)",
    "undo": "table.undo(table.history()[-1].number)",
    "change": "\nwith table.change() as change: change.upsert(table.at(1).to_arrow())",
    "vacuum": "vacuum(table, NOW, EngineChoice(LOCAL))",
    "erase": "table.erase(['1'], reason='asked')",
    "publish": "table.publish('published', format='csv')",
}
"""Without Spark in reach, so that this process does them or they fail."""
PROGRAM = """
import sys
from pathlib import Path
sys.modules["pyspark"] = sys.modules["py4j"] = None
import singerlake
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.ops.vacuum.vacuum import vacuum
NOW = VacuumOptions(retain_seconds=0, parts=PARTS, guard=False)
table = singerlake.open({lake!r}, engine="local")["tap.s"]
for name, code in {operations!r}.items():
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    exec(code)
    status = Path("/proc/self/status").read_text()
    print(name, status.split("VmHWM:")[1].split()[0], sep=":")
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_peak_memory_of_each_operation(shape: str, lake: Lake, tmp_path: Path) -> None:
    properties, row, count = SHAPES[shape]
    for text in ("a", "b"):
        rows = [row(number, text) for number in range(count)]
        commit_rows(lake, "tap.s", dict(properties), ["id"], rows, block_rows=5_000)
    work = Work.of(lake.table("tap.s").snapshot().blocks, len(properties))
    assert work.fits(SMALL)
    assert work.bytes > SMALL.bytes * 0.8 or work.cells > SMALL.cells * 0.8
    code = PROGRAM.format(lake=lake.store.uri, operations=OPERATIONS)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    peaks = dict(line.split(":") for line in done.stdout.splitlines())
    assert peaks.keys() == OPERATIONS.keys()
    assert max(int(peak) << 10 for peak in peaks.values()) < MOST, peaks
