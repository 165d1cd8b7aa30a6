"""A small table is published in this process, under every fault of both stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.publish.projection import Projection
from tests.faults.cases import Bench, Folder, fast_folder
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    OUTAGE,
    TAKEN,
    Kind,
)
from tests.faults.kinds import each_kind
from tests.faults.published import Publish, PublishFirst
from tests.frozen import HERE
from tests.needs import MORE

QUICK = [
    *((kind, "") for kind in (LOST_REPLY, TAKEN, OUTAGE, LOST_THEN_OUTAGE, INTERRUPT)),
    (KILL_AFTER, "beside/_latest.json"),
]


class PublishHere(Publish):
    """A refresh with a version, by what changed."""

    name = "publish, small"
    spark = False
    stage: ClassVar[TableName | None] = None
    versions: ClassVar[bool] = True

    def choice(self) -> EngineChoice:
        return HERE


class PublishFirstHere(PublishFirst):
    """The first publication, with a version."""

    name = "publish, small, first"
    spark = False

    def choice(self) -> EngineChoice:
        return HERE


class PublishSqlHere(PublishHere):
    """A refresh of what DuckDB computes."""

    name = "publish, small, SQL"

    def projection(self) -> Projection:
        plain = super().projection()
        return replace(plain, sql=f"{plain.sql} where id > 0 and coalesce(name, '') <> 'other'")


class PublishStagedHere(PublishSqlHere):
    """A refresh of a staging table, and of what is published of it."""

    name = "publish, small, staged"
    stage: ClassVar[TableName | None] = TableName("staging", "t")
    versions: ClassVar[bool] = False


EACH = [PublishHere, PublishFirstHere, PublishSqlHere, pytest.param(PublishStagedHere, marks=MORE)]


@pytest.fixture(scope="module", params=EACH)
def bench(processes: None, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with fast_folder() as folder:
        yield Bench(request.param(), Folder(folder), folder)


@each_kind(QUICK)
def test_rows_are_published_or_not_whatever_fails(bench: Bench, kind: Kind, part: str) -> None:
    bench.run_all(kind, part)
