"""A target that puts lines aside, killed or failing anywhere: no row comes without the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.faults import plain
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import INTERRUPT, KILL_AFTER, LOST_THEN_OUTAGE, OUTAGE, Kind
from tests.faults.operations import TAP, Target
from tests.faults.plain import Dump
from tests.target.harness import record, state

REFUSED = [record("keyed", {"id": "one"}), record("keyed", {"id": "two"})]


class Quarantine(Target):
    """The target's two commits, with a line in each that is refused."""

    name = "quarantine"
    parts = tuple(  # type: ignore[assignment]
        [*lines[:-1], refused, state(number)]
        for number, (lines, refused) in enumerate(zip(Target.parts, REFUSED, strict=True), start=1)
    )
    config: ClassVar[dict[str, Any]] = {"invalid_records": "quarantine"}

    def states(self, stream: str) -> list[list[plain.Row]]:
        """Those of the lines that are not refused."""
        return Target().states(stream)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        super().check(dump, acknowledged, done=done)
        found = plain.tables(dump)
        name = f"{TAP}.keyed__rejected"
        messages = found[name].messages() if name in found else []
        kept = {message["record"]["message"].encode() for message in messages}
        assert kept <= set(REFUSED)
        reached = max(acknowledged, default=0)
        rows = found[f"{TAP}.keyed"].state()
        for number, allowed in enumerate(self.states("keyed")):
            if rows == allowed:
                reached = max(reached, number)
        assert kept >= set(REFUSED[:reached]), "rows are there, and a line from between them is not"
        by_digest = {message["record"]["digest"]: message["record"] for message in messages}
        assert len(by_digest) == len(kept)


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(Quarantine(), Folder(folder), folder)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (OUTAGE, "raw/"),
        (INTERRUPT, "raw/"),
        (LOST_THEN_OUTAGE, "/transactions/"),
        (KILL_AFTER, "/transactions/"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)
