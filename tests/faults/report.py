"""The table of faults and operations in docs/internals/promises.md; ``make faults`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.copies import COPIES, CopyLakeVersion
from tests.faults.erasing import EraseRow
from tests.faults.faulty_store import KINDS
from tests.faults.files import FILES, UPLOADS
from tests.faults.operations import OPERATIONS
from tests.faults.published import PUBLISHING
from tests.faults.s3_place import WIRE_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "promises.md"
ON_S3 = "target on S3"
ELSEWHERE = {"gs": "target on Google", "az": "target on Azure"}
ROWS = [kind.name for kind in (*KINDS, *WIRE_KINDS)]
COLUMNS = [
    *(
        one.name
        for one in (*OPERATIONS, EraseRow, *COPIES, CopyLakeVersion, *FILES, *UPLOADS, *PUBLISHING)
    ),
    ON_S3,
    *ELSEWHERE.values(),
]
Counts = dict[tuple[str, str], int]
"""Cases by kind and operation."""
_TABLE = re.compile(r"(<!-- faults: made by make faults -->\n).*?(<!-- end -->)", re.S)


def table(counts: Counts) -> str:
    """A row for each kind of fault, a column for each operation."""
    lines = [f"| fault | {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * len(COLUMNS)}"]
    for row in ROWS:
        cells = [str(counts.get((row, column), 0) or "–") for column in COLUMNS]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    totals = [sum(counts.get((row, column), 0) for row in ROWS) for column in COLUMNS]
    lines.append(f"| **all {sum(totals)}** | {' | '.join(map(str, totals))} |")
    return "\n".join(lines)


def read(text: str) -> tuple[list[str], list[str], Counts]:
    """The rows, the columns and the counts of the table in a document, the totals left out."""
    found = _TABLE.search(text)
    assert found, "docs/internals/promises.md has lost its markers"
    lines = [line for line in found[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    columns = cells[0][1:] if cells else []
    counts = {
        (row[0], column): int(count)
        for row in cells[2:-1]
        for column, count in zip(columns, row[1:], strict=True)
        if count.isdecimal()
    }
    return [row[0] for row in cells[2:-1]], columns, counts


def write(counts: Counts) -> None:
    """Put what was run into the table in docs/internals/promises.md; other cells stay."""
    text = PAGE.read_text(encoding="utf-8")
    counts = {**read(text)[2], **counts}
    new = _TABLE.sub(lambda match: f"{match[1]}\n{table(counts)}\n\n{match[2]}", text)
    PAGE.write_text(new, encoding="utf-8")
