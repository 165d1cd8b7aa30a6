"""The lake and its tables, as far as programs publish them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from singerlake import extras, lake
from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.ops.publish.outcome import Outcome, PublishOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.format.lake_log import LakeVersion
    from singerlake.publish.projection import Projection
    from singerlake.storage.options import StoreOptions


class Table(lake.Table):
    """One stream of one tap, to be published by itself."""

    _engine: str | None = None
    """What operations run on if they name no engine: that of the lake that it was got from."""

    def _choice(self, engine: str | None, spark: SparkSession | None) -> EngineChoice:
        """Return what an operation may run on; see :class:`EngineChoice`."""
        return EngineChoice.of(engine, default=self._engine, spark=spark)

    def publish(
        self,
        to: str | os.PathLike[str],
        *,
        format: str = "parquet",  # noqa: A002  # as everybody names it
        order_by: str = "",
        key: str = "",
        partition_by: str = "",
        where: str | None = None,
        versions: bool = False,
        options: StoreOptions | None = None,
        full_refresh: bool = False,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Outcome:
        """Publish the table's rows for other tools, or bring what is published up to date.

        What is published so is declared nowhere, and goes by its place: say the same again.

        Args:
            to: A folder, or ``s3://bucket/prefix``, ``gs://…`` or ``az://…``.
            format: ``parquet``, ``csv``, ``tsv``, ``jsonl``, ``avro``, ``iceberg`` or ``delta``.
            order_by: ``ordered_at desc, id``.
            key: The columns by which a row is known again; the table's key by default.
            partition_by: ``country, month(ordered_at)``.
            where: Only these rows, as SQL says it.
            versions: Publish frozen versions as well.
            options: How the place is reached; by default AWS's usual chain.
            full_refresh: Compute and write everything anew.
            dry_run: Only find out what would be done.
            engine: What reads the rows: ``local``, ``spark``, or ``auto`` for this process if the
                table is small and there is no ``where``. By default the lake's.
            spark: The session to use; it means Spark.

        Raises:
            UsageError: Something else lies there, or it cannot be published so.
            InvalidQueryError: A column is not there.
        """
        from singerlake.publish.ad_hoc import AdHoc

        said = AdHoc(
            to=os.fspath(to),
            table=str(self.name),
            where=where,
            format=format,
            order_by=order_by,
            key=key,
            partition_by=partition_by,
            versions=versions,
            options=options,
        )
        how = PublishOptions(full_refresh=full_refresh, dry_run=dry_run)
        within = lake.Lake(self.store)
        choice = self._choice(engine, spark)
        return _publish(within, [said.projection(within)], how, choice)[0]


class Lake(lake.Lake):
    """A lake whose projections are declared."""

    _engine: str | None = None

    def publish(
        self,
        names: Iterable[str] | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        full_refresh: bool = False,
        dry_run: bool = False,
        at: int | str | None = None,
        lake_version: int | str | LakeVersion | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> list[Outcome]:
        """Bring projections up to date: staging tables, and what is published for other tools.

        Args:
            names: Which, and before them those that make what they read; all by default.
            file: Where they are declared; ``projections.yml`` by default.
            full_refresh: Compute and write everything anew.
            dry_run: Only find out what would be done.
            at: Publish this frozen version, by number or label, beside the rows of now.
            lake_version: The same of the versions that this lake version, by number or label,
                names of their tables.
            engine: As for :meth:`Table.publish`; SQL that computes and staging tables are Spark's.
            spark: The session to use; it means Spark.

        Returns:
            What became of each, in the order in which they ran.

        Raises:
            UsageError: What is declared cannot be, or both ``at`` and ``lake_version`` are given.
            NotFoundError: None are declared, or a table that is read is not there, or there is
                no such lake version.
            SingerlakeError: One failed. The others were published all the same, but those that
                read it.
        """
        from singerlake.publish.declaration import declared
        from singerlake.publish.graph import graph

        if at is not None and lake_version is not None:
            raise UsageError("at and lake_version are two ways to ask: take one")
        if isinstance(lake_version, (int, str)):
            lake_version = self.lake_version(lake_version)
        arranged = graph(self, declared(None if file is None else Path(file)))
        wanted = arranged.projections if names is None else arranged.with_makers(names)
        version = None if at is None else str(at)
        options = PublishOptions(full_refresh, dry_run, version, lake_version)
        choice = EngineChoice.of(engine, default=self._engine, spark=spark)
        return _publish(self, wanted, options, choice)


def _publish(
    within: lake.Lake,
    projections: Sequence[Projection],
    options: PublishOptions,
    choice: EngineChoice,
) -> list[Outcome]:
    """Publish projections.

    Raises:
        SingerlakeError: The first that failed, once all were tried.
    """
    from singerlake.ops.publish.publish import publish

    outcomes = list(publish(within, projections, options, choice))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes


def session_for(spark: SparkSession | None, purpose: str) -> SparkSession:
    """Return the session that was given; else the running one, or a new one.

    Raises:
        RuntimeMissingError: Spark or Java is not installed.
    """
    extras.require("pyspark", purpose)
    from singerlake.engine.spark.jvm.session import given

    return given(spark)
