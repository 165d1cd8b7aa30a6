"""Copied versions are what they were: their fingerprints are computed again from the copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from singerlake.lake import Lake
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import vacuum_on_spark
from tests.frozen import verify_on_spark as verify
from tests.ops.copy.world import NAME, QUICK, copy, problems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}


def test_versions_verify_after_history_was_dropped(spark: SparkSession, tmp_path: Path) -> None:
    source = Lake(LocalStore(tmp_path / "source"))
    for n in (1, 2, 3):
        commit_rows(source, NAME, ROW, ["id"], [{"id": i, "n": n} for i in (1, 2)])
    table = source.find(NAME)[0]
    freeze(spark, table, at=1)
    freeze(spark, table, at=3, label="third")
    commit_rows(source, NAME, ROW, ["id"], [{"id": 1, "n": 4}])
    commit_rows(source, NAME, ROW, ["id"], [{"id": 1, "n": 5}])
    options = VacuumOptions(retain_seconds=0, guard=False, parts=PARTS, lease_wait_seconds=0)
    vacuum_on_spark(spark, table, options)
    frozen = table.snapshot().frozen
    for place, names, versions in (
        ("whole", (), frozen),
        ("first", (f"{NAME}.1",), frozen[:1]),
        ("second", (f"{NAME}.2",), frozen[1:]),  # the first was frozen behind it
        ("both", (f"{NAME}.1", f"{NAME}.2"), frozen),
    ):
        store = LocalStore(tmp_path / place)
        copy(source.store, store, *names, options=replace(QUICK, verify=True))
        copied = Lake(store).find(NAME)[0]
        assert copied.snapshot().frozen == versions and problems(store) == [], place
        report = verify(spark, copied)
        assert (report.problems, report.versions) == ([], len(versions)), place
