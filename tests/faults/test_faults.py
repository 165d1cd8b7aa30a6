"""Every operation on the store goes wrong once in each way: before or after, never between.

The suite runs all of it for what needs no Spark, and the commit of each Spark job. ``make
faults`` runs everything and writes the counts into docs/safety.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from tests.faults import report
from tests.faults.cases import Bench, Case, Folder, fast_folder
from tests.faults.copies import COPIES
from tests.faults.faulty_store import (
    INTERRUPT,
    KILL_AFTER,
    KILL_BEFORE,
    KINDS,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    TAKEN,
    Kind,
)
from tests.faults.operations import (
    OPERATIONS,
    Alter,
    Change,
    ChangeKey,
    ChangeKeyless,
    CreateTable,
    Freeze,
    Operation,
    Revert,
    RevertKeyless,
    Target,
)
from tests.faults.published import (
    PUBLISHING,
    Publish,
    PublishDelta,
    PublishFirst,
    PublishIceberg,
)
from tests.faults.s3_place import WIRE_KINDS, Bucket, StrikingRelay
from tests.storage.conftest import no_aws_settings, s3_port

__all__ = ["no_aws_settings", "s3_port"]
EVERYTHING = os.environ.get("SINGERLAKE_FAULTS") == "all"
PLAIN = [*(operation for operation in OPERATIONS if not operation.spark), *COPIES]
SPARK = [*(operation for operation in OPERATIONS if operation.spark), *PUBLISHING]
# Of the Spark jobs the suite takes a fault at the commit each, and one that was a bug once.
QUICK = [
    (Freeze, TAKEN, "_index.json"),
    (Freeze, LOST_THEN_OUTAGE, "/transactions/"),
    (Revert, LOST_THEN_OUTAGE, "/transactions/"),
    (RevertKeyless, INTERRUPT, "/transactions/"),
    (Change, LOST_THEN_OUTAGE, "/transactions/"),
    (ChangeKeyless, INTERRUPT, "/transactions/"),
    (ChangeKey, LOST_THEN_OUTAGE, "/transactions/"),
    (Alter, LOST_THEN_OUTAGE, "/transactions/"),
    (CreateTable, LOST_REPLY, "/transactions/"),
    (Publish, LOST_THEN_OUTAGE, "/transactions/"),
    (Publish, KILL_AFTER, "beside/_latest.json"),
    (PublishFirst, INTERRUPT, "beside/"),
    (PublishIceberg, TAKEN, "beside/catalog.db"),
    (PublishDelta, LOST_REPLY, "beside/_delta_log/"),
]
S3_STEP = 1 if EVERYTHING else 53

Benches = Callable[[type[Operation]], Bench]


@pytest.fixture(scope="module")
def counts() -> Iterator[report.Counts]:
    """Cases that were run; written down where all were."""
    counts: report.Counts = {}
    yield counts
    if EVERYTHING:
        report.write(counts)


@pytest.fixture(scope="module")
def benches() -> Iterator[Benches]:
    """A bench for each operation, made when it is first asked for."""
    made: dict[type[Operation], Bench] = {}
    with ExitStack() as stack:

        def bench(operation: type[Operation]) -> Bench:
            if operation not in made:
                folder = stack.enter_context(fast_folder())
                made[operation] = Bench(operation(), Folder(folder), folder)
            return made[operation]

        yield bench


@pytest.fixture(scope="module")
def on_s3(s3_port: int) -> Iterator[Bench]:
    """The target's bench on S3."""
    with fast_folder() as folder, StrikingRelay(s3_port).running() as relay:
        assert isinstance(relay, StrikingRelay)
        yield Bench(Target(), Bucket(s3_port, relay), folder)


def run(bench: Bench, cases: list[Case], counts: report.Counts, column: str) -> None:
    assert cases
    for case in cases:
        bench.run(case)
    counts[cases[0].kind.name, column] = len(cases)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (operation, kind)
        for operation in PLAIN
        for kind in KINDS
        # Killed before a request is killed after the one before it.
        if EVERYTHING or (operation not in COPIES or kind != KILL_BEFORE)
    ],
    ids=lambda value: value.name,
)
def test_every_operation_of_the_store(
    benches: Benches, counts: report.Counts, operation: type[Operation], kind: Kind
) -> None:
    bench = benches(operation)
    run(bench, bench.cases(kind), counts, operation.name)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("operation", "kind", "part"),
    [(operation, kind, "") for kind in KINDS for operation in SPARK] if EVERYTHING else QUICK,
    ids=lambda value: value or "all" if isinstance(value, str) else value.name,
)
def test_a_spark_job(
    spark: SparkSession,
    benches: Benches,
    counts: report.Counts,
    operation: type[Operation],
    kind: Kind,
    part: str,
) -> None:
    bench = benches(operation)
    if cases := [case for case in bench.cases(kind) if part in case.done.key]:
        run(bench, cases, counts, operation.name)
    else:
        assert not part, "no such operation on the store"


@pytest.mark.parametrize("kind", WIRE_KINDS, ids=lambda kind: kind.name)
def test_every_request_to_s3(on_s3: Bench, counts: report.Counts, kind: Kind) -> None:
    # Another place for each kind where only some are taken.
    cases = on_s3.cases(kind)[WIRE_KINDS.index(kind) % S3_STEP :: S3_STEP]  # type: ignore[arg-type]
    run(on_s3, cases, counts, report.ON_S3)


def test_the_table_in_the_docs_is_of_these_faults_and_operations() -> None:
    rows, columns, counts = report.read(report.SAFETY.read_text(encoding="utf-8"))
    assert (rows, columns) == (report.ROWS, report.COLUMNS), "run: make faults"
    assert counts
