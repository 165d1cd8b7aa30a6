"""Freezing many tables as one, on one session: a version of each that has none of its state yet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import SparkSession

from singerlake.errors import RuntimeMissingError, SingerlakeError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.maintenance.freeze_lake import LakeFreeze, version_at_cut
from singerlake.spark.jobs.maintenance.freeze import freeze


def freeze_missing(
    spark: SparkSession, lake: Lake, wanted: LakeFreeze, *, allow_violations: bool = False
) -> Iterator[tuple[TableName, FrozenVersion | SingerlakeError]]:
    """Make the versions that a lake version needs; in place of one that failed, the error.

    Where somebody else froze the same state since the plan, that version is taken.

    Args:
        spark: The session.
        lake: The lake.
        wanted: The plan, with the tables' heads of one moment.
        allow_violations: Freeze tables even if rows do not keep their constraints.

    Raises:
        RuntimeMissingError: Something is not installed that all tables need.
    """
    for name in wanted.missing:
        number = wanted.cut.heads[name].number
        made: FrozenVersion | SingerlakeError
        try:
            made = freeze(
                spark,
                lake.table(name),
                at=number,
                comment=wanted.comment,
                allow_violations=allow_violations,
                instead=partial(version_at_cut, cut=wanted.cut, allow_violations=allow_violations),
            )
        except RuntimeMissingError:
            raise
        except SingerlakeError as error:
            made = error
        yield name, made


def freeze_all_missing(
    spark: SparkSession, lake: Lake, wanted: LakeFreeze, *, allow_violations: bool = False
) -> dict[TableName, FrozenVersion]:
    """Make the versions that a lake version needs, as far as that can be done.

    Raises:
        SingerlakeError: The first that went wrong, after all that went right.
    """
    versions, failed = {}, []
    for name, came in freeze_missing(spark, lake, wanted, allow_violations=allow_violations):
        if isinstance(came, SingerlakeError):
            failed.append(came)
        else:
            versions[name] = came
    if failed:
        raise failed[0]
    return versions
