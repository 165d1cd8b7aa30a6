"""A new version of every table that a run has changed, for the setting ``new_version``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from singerlake import extras
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake


def check_possible() -> None:
    """Make sure, before a long run, that Spark could start after it.

    Raises:
        RuntimeMissingError: It is not installed, or there is no Java that it runs on.
    """
    extras.require("pyspark", "the setting new_version")
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

    Args:
        lake: The lake.
        tables: Which.
        logger: Told of each version.
        check: Called before each table; may raise to end it there.
        done: Told of each version too.

    Raises:
        SingerlakeError: A table could not be frozen. What was synced stays, and so do the
            versions that were made before.
    """
    from singerlake.spark.jobs.freeze import freeze
    from singerlake.spark.jvm.session import session

    spark = session()
    for name in sorted(tables):
        check()
        version = freeze(spark, lake.table(name))
        done(name, version)
        logger.info(
            "%s version %d: %s rows, fingerprint %s",
            name,
            version.number,
            f"{version.rows:,}",
            version.fingerprint,
        )
