"""The lake and its tables as programs hold them: all of ``lake.py``, and the changing of rows.

Rows are changed by a job on Spark, above the room of ``lake.py``; so what begins one stands here,
above both. Spark is imported when a change is begun, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from singerlake import lake
from singerlake.format.names import TableName
from singerlake.maintenance.change import ChangeOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.spark.jobs.table_change import TableChange

__all__ = ["Lake", "Table"]


class Table(lake.Table):
    """One stream of one tap."""

    def change(
        self,
        *,
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        etag: int | None = None,
        overwrite: bool = False,
        new_version: bool = False,
        label: str | None = None,
        dry_run: bool = False,
        spark: SparkSession | None = None,
    ) -> TableChange:
        """Begin a change, to be used as a context; at its end all of it is one transaction.

        ::

            with lake.table("tap-shop.orders").change(comment="paid by card") as change:
                change.upsert([{"id": 17, "status": "paid"}])
                change.delete([18, 19])
            print(change.result)

        Where the block ends with an error, nothing is changed.

        Args:
            comment: Why; kept with the transaction.
            metadata: What else to keep with it.
            etag: The transaction that the table must still be at.
            overwrite: Change rows whatever version of them was read.
            new_version: Freeze what the change leaves, in the same transaction.
            label: That version's label.
            dry_run: Only work out what would be done.
            spark: The session; the running one by default, or a new one.
        """
        from singerlake.spark.jobs.table_change import TableChange

        options = ChangeOptions(
            comment=comment,
            metadata=metadata or {},
            etag=etag,
            overwrite=overwrite,
            new_version=new_version,
            label=label,
            dry_run=dry_run,
        )
        return TableChange(self, options, spark)


class Lake(lake.Lake):
    """A lake in a store, whose tables can be changed."""

    def table(self, name: str | TableName) -> Table:
        """Get one table; see :meth:`singerlake.lake.Lake.table`."""
        found = super().table(name)
        return found if isinstance(found, Table) else Table(found.store, found.name)
