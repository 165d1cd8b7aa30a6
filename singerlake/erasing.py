"""The tables of a lake, as far as programs erase rows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from singerlake import reverting
from singerlake.errors import UsageError
from singerlake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.ops.erase.tables import Erased


class Table(reverting.Table):
    """One stream of one tap, whose rows can be erased."""

    def erase(
        self,
        ids: Iterable[object] = (),
        *,
        reason: str,
        where: str | None = None,
        also: Mapping[str, str | None] | None = None,
        projections: str | Path | None = None,
        leave_words: bool = False,
        tell: timedelta | None = None,
        block: bool = False,
        earlier_versions: bool = False,
        wait: float = 600.0,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Erased:
        """Erase rows for good, with all that they ever were. It cannot be taken back.

        ::

            lake["tap-shop.customers"].erase(
                ["17"], reason="request 12", also={"tap-shop.orders": "customer_id = 17"}
            )

        Args:
            ids: Their ids, as ``_row_id`` shows them.
            reason: Why: the log keeps it, so do not name the person.
            where: Instead of ids, a condition in SQL that held for them at any time.
            also: More tables, each with the condition for its rows; None for the same ids or the
                same condition.
            projections: Where projections are declared; ``projections.yml`` by default.
            leave_words: Even if words in log entries name a row.
            tell: For how long taps that are behind tell their targets to delete the rows.
            block: Leave out whatever comes with these keys again.
            earlier_versions: Delete what the bucket keeps of the tables' objects from before, too.
            wait: How many seconds to wait for readers that may need what is to be deleted.
            dry_run: Only find out what would be done.
            engine: What reads and writes rows: ``local``, ``spark``, or ``auto`` for this process
                if a table is small, its rows are named by ids, and Spark need not compute what is
                published of it. By default the lake's.
            spark: The session to use; it means Spark.

        Returns:
            What was done to each table, and what was published again. It ``is_done`` if nothing is
            left to do; where nothing was ``found``, there were no such rows.

        Raises:
            UsageError: Something is in the way, or is not said; nothing was changed.
            NotFoundError: There is no such table.
            ConflictError: A vacuum is at work, or others write such rows meanwhile.
            DamagedError: A version would not be what it should; nothing was changed.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.ops.erase import tables
        from singerlake.ops.erase.plan import EraseOptions
        from singerlake.ops.erase.table import EraseRequest

        if isinstance(ids, str):
            raise UsageError("give a list of ids, even where it is one")
        said = tuple(dict.fromkeys(map(str, ids)))
        if bool(said) == (where is not None):
            raise UsageError("say which rows: by their ids, or by a condition with where")
        lake = Lake(self.store)
        asked = [EraseRequest(self, said, where), *tables.requests(lake, also or {}, said, where)]
        telling = 0.0 if tell is None else tell.total_seconds()
        options = EraseOptions(
            reason, dry_run, telling, block, earlier_versions, lease_wait_seconds=wait
        )
        file = None if projections is None else Path(projections)
        choice = self._choice(engine, spark)
        return tables.erase(lake, asked, options, choice, words=not leave_words, projections=file)
