"""The lake, as far as programs copy it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from singerlake import lake
from singerlake.errors import UsageError
from singerlake.format.lake_log import LakeVersion

if TYPE_CHECKING:
    from singerlake.format.names import TableName
    from singerlake.ops.copy.lake_versions import CopiedLakeVersion
    from singerlake.ops.copy.outcome import Copied
    from singerlake.storage.options import StoreOptions


@dataclass(frozen=True)
class LakeCopy:
    """What a copy did.

    Attributes:
        tables: What it did with each table, also where that was nothing.
        lake_versions: The lake versions that it brought.
        notes: What is worth knowing.
    """

    tables: list[Copied] = field(default_factory=list)
    lake_versions: list[CopiedLakeVersion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Lake(lake.Lake):
    """A lake that can be copied."""

    def copy(
        self,
        to: str | os.PathLike[str],
        *,
        tables: Sequence[str | TableName] | None = None,
        lake_version: int | str | LakeVersion | None = None,
        sync: bool = False,
        verify: bool = False,
        dry_run: bool = False,
        options: StoreOptions | None = None,
        transfers: int = 8,
        wait: timedelta = timedelta(minutes=2),
    ) -> LakeCopy:
        """Copy the lake, or some of it, to a place that is empty or a copy of it; without Spark.

        A later call copies what is new, and goes on where an earlier one was killed.

        Args:
            to: A folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or
                ``az://container/prefix``.
            tables: Which tables, or versions of them: ``["tap.orders", "tap.items.2"]``; all by
                default.
            lake_version: A lake version, by number or label: its tables at the versions that it
                names.
            sync: Also delete there what a vacuum has deleted here since.
            verify: Also read all that is there again.
            dry_run: Only find out what would be done.
            options: How the place is reached; by default as the environment says.
            transfers: How many files to copy at the same time.
            wait: How long to wait, with ``sync``, for readers of the copy.

        Raises:
            UsageError: The place is no lake and not empty, lies in this one, or what is asked for
                does not go together, or is out of range.
            NotFoundError: A table, version or lake version is not there.
            ConflictError: A table there is no copy of this one any more.
            SingerlakeError: Something could not be copied. All else was all the same.
        """
        from singerlake.ops.copy.destination import check_place
        from singerlake.ops.copy.lake_versions import CopiedLakeVersion
        from singerlake.ops.copy.outcome import Copied, CopyOptions
        from singerlake.ops.copy.run import Asked, Failed, copy_lake
        from singerlake.ops.copy.transfers import Meter
        from singerlake.storage.opening import open_store

        if transfers < 1:
            raise UsageError(f"transfers={transfers}: at least one file is copied at a time")
        named = _named(self, tables, lake_version, sync=sync)
        if isinstance(lake_version, LakeVersion):
            lake_version = lake_version.number
        destination = open_store(os.fspath(to), options)
        check_place(self.store, destination)
        how = CopyOptions(
            sync=sync,
            verify=verify,
            dry_run=dry_run,
            transfers=transfers,
            lease_wait_seconds=wait.total_seconds(),
        )
        done, failed = LakeCopy(), []
        asked = Asked(named, lake_version)
        with closing(copy_lake(self, destination, asked, how, Meter())) as events:
            for event in events:
                if isinstance(event, Copied):
                    done.tables.append(event)
                elif isinstance(event, CopiedLakeVersion):
                    done.lake_versions.append(event)
                elif isinstance(event, Failed):
                    failed.append(event.error)
                else:
                    done.notes.append(event.text)
        if failed:
            raise failed[0]
        return done


def _named(
    within: lake.Lake,
    tables: Sequence[str | TableName] | None,
    lake_version: int | str | LakeVersion | None,
    *,
    sync: bool,
) -> list[str]:
    """The tables that are named.

    Raises:
        UsageError: They do not go together with what else is asked for.
    """
    if tables is not None and not tables:
        raise UsageError("the list of tables is empty: leave it out to copy all of them")
    if lake_version is not None and tables:
        raise UsageError("lake_version says which tables are copied: leave tables out")
    if lake_version is not None and sync:
        raise UsageError("sync follows whole tables: leave it out, or copy all of the lake")
    named = [tables] if isinstance(tables, str) else [str(one) for one in tables or ()]
    if sync and any(within.find(text)[1].version is not None for text in named):
        raise UsageError("sync follows a table's log: leave it out, or name whole tables")
    return named
