"""The erasure of a small table's row, in this process, under every fault of the store."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.erasing import EraseRowHere
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    OUTAGE,
    READS,
    TAKEN,
    Kind,
)
from tests.faults.kinds import each_kind

QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "/transactions/"),
    (KILL_AFTER, ".singer.gz"),
    (KILL_AFTER, "erased/"),
]
"""Every place for most kinds; processes that are killed take longer, and are killed where it
matters most."""


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(EraseRowHere(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_row_is_everywhere_or_nowhere_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    every = os.environ.get("SINGERLAKE_FAULTS") == "all"
    # Whoever is killed after it has read leaves what the write before leaves.
    left_out = READS if kind.kills and not every else frozenset()
    cases = [
        case
        for case in bench.cases(kind)
        if part in case.done.key and case.done.method not in left_out
    ]
    assert cases
    for case in cases:
        bench.run(case)
