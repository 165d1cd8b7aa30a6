"""Copy a lake for a program: all that is asked for, and then one answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singerlake.errors import UsageError
from singerlake.format.lake_log import LakeVersion
from singerlake.ops.copy.destination import check_place
from singerlake.ops.copy.lake_versions import CopiedLakeVersion
from singerlake.ops.copy.outcome import Copied, CopyOptions
from singerlake.ops.copy.run import Asked, Failed, copy_lake
from singerlake.ops.copy.transfers import Meter
from singerlake.storage.opening import open_store

if TYPE_CHECKING:
    from singerlake.format.names import TableName
    from singerlake.lake import Lake
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


def copy(
    within: Lake,
    to: str,
    *,
    tables: Sequence[str | TableName] | None,
    lake_version: int | str | LakeVersion | None,
    how: CopyOptions,
    options: StoreOptions | None,
) -> LakeCopy:
    """Copy a lake, or some of it, and raise the first error once all else was copied.

    Args:
        within: The lake.
        to: Where to.
        tables: Which tables, or versions of them; all by default.
        lake_version: A lake version, by number or label.
        how: How.
        options: How the place is reached.

    Raises:
        SingerlakeError: As :meth:`singerlake.Lake.copy` says.
    """
    if how.transfers < 1:
        raise UsageError(f"transfers={how.transfers}: at least one file is copied at a time")
    named = _named(within, tables, lake_version, sync=how.sync)
    if isinstance(lake_version, LakeVersion):
        lake_version = lake_version.number
    destination = open_store(to, options)
    check_place(within.store, destination)
    done, failed = LakeCopy(), []
    asked = Asked(named, lake_version)
    with closing(copy_lake(within, destination, asked, how, Meter())) as events:
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
    within: Lake,
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
        raise UsageError("lake_version selects the tables: leave out tables")
    if lake_version is not None and sync:
        raise UsageError("sync needs whole tables: leave it out, or copy the whole lake")
    named = [tables] if isinstance(tables, str) else [str(one) for one in tables or ()]
    if sync and any(within.find(text)[1].version is not None for text in named):
        raise UsageError("sync needs whole tables: leave it out, or name tables without a version")
    return named
