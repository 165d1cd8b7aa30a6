"""Alterations of small tables, in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import Kind
from tests.faults.kinds import each_kind
from tests.faults.operations import Alter, ChangeKey
from tests.faults.test_small_revert import QUICK


class AlterHere(Alter):
    """The same as on Spark."""

    name = "alter, small"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)


class ChangeKeyHere(ChangeKey):
    """Rows and a key in one change, with a version."""

    name = "change, small, new key"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)


@pytest.fixture(scope="module", params=[AlterHere, ChangeKeyHere])
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_a_small_table_gets_its_key_or_does_not_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)
