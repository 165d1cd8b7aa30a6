"""Changes and uploads of small tables, in this process, under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import Kind
from tests.faults.files import UploadFolder
from tests.faults.kinds import each_kind
from tests.faults.operations import Change, ChangeKeyless
from tests.faults.test_small_revert import QUICK


class ChangeHere(Change):
    """The same as on Spark."""

    name = "change, small"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)


class ChangeKeylessHere(ChangeKeyless):
    """The same of a table without a key."""

    name = "change, small, no key"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)


class UploadFolderHere(UploadFolder):
    """A folder again, as on Spark."""

    name = "upload, folder, small"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)


@pytest.fixture(scope="module", params=[ChangeHere, ChangeKeylessHere, UploadFolderHere])
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_rows_of_a_small_table_change_or_do_not_whatever_fails(
    bench: Bench, kind: Kind, part: str
) -> None:
    bench.run_all(kind, part)
