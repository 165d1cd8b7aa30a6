"""New versions of the tables that a run has changed, or a lake version of them, if asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from singerlake import extras
from singerlake.engine.choice import SPARK, EngineChoice
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Lake


def engine_choice(config: Mapping[str, Any]) -> EngineChoice:
    """Return what may read the rows of tables that are frozen, as the settings say.

    Raises:
        UsageError: There is no such engine.
        RuntimeMissingError: Spark is asked for, before a long run, and could not start after it.
    """
    choice = EngineChoice.of(config.get("engine"))
    if choice.name == SPARK:
        for setting in ("new_version", "new_lake_version"):
            if config[setting]:
                _check_possible(setting)
    return choice


def _check_possible(setting: str) -> None:
    extras.require("pyspark", f"the setting {setting}")
    from singerlake.engine.spark.jvm import java

    java.find()


def freeze_tables(
    lake: Lake,
    tables: Iterable[TableName],
    choice: EngineChoice,
    logger: logging.Logger,
    check: Callable[[], None],
    done: Callable[[TableName, FrozenVersion], None] = lambda _table, _version: None,
) -> None:
    """Freeze the head of some tables, one after the other.

    A table whose state has a version already gets no other.

    Args:
        lake: The lake.
        tables: Which.
        choice: What may read their rows.
        logger: Told of each version.
        check: Called before each table; may raise to end it there.
        done: Told of each new version too.

    Raises:
        SingerlakeError: A table could not be frozen. What was synced stays, and so do the
            versions that were made before.
    """
    from singerlake.ops.freeze import freeze  # late: few runs freeze

    for name in sorted(tables):
        check()
        frozen = freeze(lake.table(name), None, choice)
        version = frozen.version
        if frozen.new:
            done(name, version)
        logger.info(
            "%s version %d: %s rows, fingerprint %s%s",
            name,
            version.number,
            f"{version.rows:,}",
            version.fingerprint,
            "" if frozen.new else "; it already existed",
        )


def freeze_as_one(
    lake: Lake,
    tables: Collection[TableName],
    choice: EngineChoice,
    logger: logging.Logger,
    check: Callable[[], None],
    done: Callable[[TableName, FrozenVersion], None] = lambda _table, _version: None,
) -> LakeVersion:
    """Freeze the heads of some tables as one lake version; see :func:`freeze_tables`.

    Returns:
        The lake version.
    """
    from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan  # late: as above

    options = LakeFreezeOptions(named=sorted(tables))
    wanted = plan(lake, lambda: tables, options)

    def each(names: Sequence[TableName]) -> Iterator[TableName]:
        for name in names:
            check()
            yield name
        check()

    frozen = freeze_lake(lake, wanted, options, choice, each=each, done=done)
    if (version := frozen.version) is None:
        raise next(iter(frozen.failed.values()))
    logger.info(
        "%s: %d tables, %s rows, fingerprint %s",
        version,
        len(version.tables),
        f"{version.rows:,}",
        version.fingerprint,
    )
    return version
