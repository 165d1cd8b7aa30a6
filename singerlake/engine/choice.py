"""The choice of engine: this process if the work is small, Spark otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake import extras
from singerlake.engine.work import SMALL, Work
from singerlake.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.engine.base import Engine

AUTO, LOCAL, SPARK = ENGINES = ("auto", "local", "spark")
VARIABLE = "SINGERLAKE_ENGINE"


@dataclass(frozen=True)
class EngineChoice:
    """The engines that an operation may run on.

    Attributes:
        name: ``auto`` for this process if the work is small and for Spark otherwise, or else the
            one of them that is wanted.
        start: Starts a session, or finds the one that runs.
        limit: The most work that is small.
    """

    name: str = AUTO
    start: Callable[[], SparkSession] | None = None
    limit: Work = field(default_factory=lambda: SMALL)

    @classmethod
    def of(
        cls,
        name: str | None = None,
        *,
        default: str | None = None,
        spark: SparkSession | None = None,
        start: Callable[[], SparkSession] | None = None,
    ) -> EngineChoice:
        """Make one of what a caller asks for.

        Args:
            name: ``auto``, ``local`` or ``spark``; by default what ``SINGERLAKE_ENGINE`` says,
                and ``auto`` if it says nothing.
            default: What to take if neither a name nor a session is given.

        Raises:
            UsageError: There is no such engine, or a session is given for ``local``.
        """
        name = name or (None if spark else default)
        asked = name or (SPARK if spark else os.environ.get(VARIABLE)) or AUTO
        if asked not in ENGINES:
            where = "" if name else f" of {VARIABLE}"
            raise UsageError(f"the engine {asked!r}{where} is not one of {', '.join(ENGINES)}")
        if spark is not None:
            if asked == LOCAL:
                raise UsageError("engine='local' needs no session: leave one of them out")
            return cls(SPARK, partial(_session, spark))
        return cls(asked, start)

    def takes(self, work: Work) -> bool:
        """Tell whether this process is to do some work."""
        return self.name == LOCAL or (self.name == AUTO and work.fits(self.limit))

    def engine_for(
        self,
        work: Work,
        what: str,
        *,
        sql: str | None = None,
        started: Engine[Any] | None = None,
    ) -> Engine[Any]:
        """Choose the engine for some work, and start it.

        Args:
            work: How much there is to do.
            what: What is to be done, for the error where Spark is missing.
            sql: What has to be asked in SQL, if anything is.
            started: What was chosen before; Spark stays.

        Raises:
            UsageError: Something has to be asked in SQL, and only this process may be used.
        """
        if sql is not None and self.name == LOCAL:
            raise UsageError(f"{sql} can only be checked by Spark: use the engine auto or spark")
        from singerlake.engine.local import LocalEngine  # late: it imports pyarrow

        if started is not None and not isinstance(started, LocalEngine):
            return started
        if sql is None and self.takes(work):
            return LocalEngine()
        return self.spark_engine(what)

    def need_spark(self, what: str, sql: str) -> None:
        """Make sure that Spark may be used before modules of it are imported; Java starts now.

        Args:
            what: What is to be done, for the error where Spark is missing.
            sql: What only Spark can do of it.

        Raises:
            UsageError: Only this process may be used.
            RuntimeMissingError: Spark is not installed.
        """
        if self.name == LOCAL:
            raise UsageError(f"{sql} needs Spark: use the engine auto or spark")
        extras.require("pyspark", what)
        if (begin := getattr(self.start, "begin", None)) is not None:
            begin()

    def spark_engine(self, what: str) -> Engine[Any]:
        """Start Spark."""
        spark = self.session(what)
        from singerlake.engine.spark.engine import SparkEngine

        return SparkEngine(spark)

    def session(self, what: str) -> SparkSession:
        """Start Spark, or find the session that runs; see :meth:`spark_engine`."""
        extras.require("pyspark", what)
        return (self.start or _session)()


def _session(spark: SparkSession | None = None) -> SparkSession:
    from singerlake.engine.spark.jvm.session import given

    return given(spark)
