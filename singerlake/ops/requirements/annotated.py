"""The requirements that a lake's file says its tables have."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from singerlake.annotations.requirement import Requirement, parse_all
from singerlake.errors import UsageError
from singerlake.format import refused_lines
from singerlake.format.metadata import LakeFile
from singerlake.format.names import REJECTED, TableName
from singerlake.log import lake_file, log
from singerlake.storage.base import Store


def required(
    store: Store,
    names: Iterable[TableName],
    given: Sequence[str] = (),
    *,
    named: Container[TableName] | None = None,
) -> dict[TableName, tuple[Requirement, ...]]:
    """Return the requirements of tables' snapshots: those annotated, and more that are given.

    Dead-letter tables are empty if all is well, and their rows come and go. So those of the lake
    and the tap are not asked of them, nor those that are given unless somebody named the table.

    Args:
        named: The tables that somebody named; None if all are.

    Raises:
        UsageError: One cannot be read.
        DamagedError: The lake's file cannot be read, so that its requirements are not known.
    """
    file = lake_file.read(store) or LakeFile()
    found = {}
    for name in names:
        dead = holds_rejected(store, name)
        more = () if dead and named is not None and name not in named else given
        found[name] = parse_all([*file.requirements_of(name, own=dead), *more])
    return found


def holds_rejected(store: Store, name: TableName) -> bool:
    """Tell whether a table is a dead-letter table, and not a stream of that name."""
    if not name.stream.endswith(REJECTED):
        return False
    head = log.read_snapshot(store, name)
    return head is not None and refused_lines.are_in(head.tap_schema)


def refuse_with_change(store: Store, name: TableName) -> None:
    """Refuse to freeze a version in the transaction of a change if it would have to meet something.

    Raises:
        UsageError: It would: requirements measure a snapshot that is committed.
        DamagedError: As for :func:`required`.
    """
    if required(store, [name])[name]:
        raise UsageError(
            f"{name} has requirements (singerlake show {name}), which --new-version does not "
            f"check: leave it out, then run: singerlake freeze {name}"
        )
