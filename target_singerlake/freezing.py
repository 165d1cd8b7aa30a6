"""New versions of the tables that a run has changed, or a lake version of them, if asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from singerlake import extras
from singerlake.errors import SingerlakeError
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake


def check_possible(setting: str = "new_version") -> None:
    """Make sure, before a long run, that Spark could start after it.

    Args:
        setting: The setting that asks for it.

    Raises:
        RuntimeMissingError: It is not installed, or there is no Java that it runs on.
    """
    extras.require("pyspark", f"the setting {setting}")
    from singerlake.spark.jvm import java

    java.find()


def freeze_tables(
    lake: Lake,
    tables: Iterable[TableName],
    logger: logging.Logger,
    check: Callable[[], None],
    done: Callable[[TableName, FrozenVersion], None] = lambda _table, _version: None,
) -> None:
    """Freeze the head of some tables, one after the other on one Spark session.

    A table whose state has a version already gets no other.

    Args:
        lake: The lake.
        tables: Which.
        logger: Told of each version.
        check: Called before each table; may raise to end it there.
        done: Told of each new version too.

    Raises:
        SingerlakeError: A table could not be frozen. What was synced stays, and so do the
            versions that were made before.
    """
    from singerlake.spark.jobs.maintenance.freeze import freeze
    from singerlake.spark.jvm.session import session

    spark = session()
    for name in sorted(tables):
        check()
        table = lake.table(name)
        before = table.snapshot().last_version
        version = freeze(spark, table, again=False)
        if new := version.number > before:
            done(name, version)
        logger.info(
            "%s version %d: %s rows, fingerprint %s%s",
            name,
            version.number,
            f"{version.rows:,}",
            version.fingerprint,
            "" if new else "; it was there",
        )


def freeze_as_one(
    lake: Lake,
    tables: Collection[TableName],
    logger: logging.Logger,
    check: Callable[[], None],
    done: Callable[[TableName, FrozenVersion], None] = lambda _table, _version: None,
) -> LakeVersion:
    """Freeze the heads of some tables as one lake version; see :func:`freeze_tables`.

    Returns:
        The lake version.
    """
    from singerlake.maintenance import freeze_lake
    from singerlake.spark.jobs.maintenance.freeze_lake import freeze_missing
    from singerlake.spark.jvm.session import session

    wanted = freeze_lake.plan(lake.store, lambda: tables, named=tables, again=False)
    made: dict[TableName, FrozenVersion] = {}
    check()
    if wanted.missing:
        for name, came in freeze_missing(session(), lake, wanted):
            if isinstance(came, SingerlakeError):
                raise came
            made[name] = came
            done(name, came)
            check()
    version = freeze_lake.commit_lake_version(lake.store, wanted, made)
    logger.info(
        "%s: %d tables, %s rows, fingerprint %s",
        version,
        len(version.tables),
        f"{version.rows:,}",
        version.fingerprint,
    )
    return version
