"""A table of simple SQL, made in this process under every fault of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.create.table import CreateOptions, create
from singerlake.storage.base import Store
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import Kind
from tests.faults.kinds import each_kind
from tests.faults.operations import CreateTable, write_options
from tests.faults.test_small_revert import QUICK
from tests.frozen import HERE


class CreateTableHere(CreateTable):
    """The same as Spark's."""

    name = "create-table, small"
    spark = False

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        sql = "select id, name from tap_test.t where id < 2"
        change = ChangeOptions(writing=write_options(again=again))
        try:
            create(Lake(store), "made.new", CreateOptions(sql, ("id",), None, change), HERE)
        except UsageError as error:
            # The first run made it, without knowing.
            if not again or "already" not in str(error):
                raise


@pytest.fixture(scope="module")
def bench(processes: None) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(CreateTableHere(), Folder(folder), folder)


@each_kind(QUICK)
def test_table_is_made_or_not_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)
