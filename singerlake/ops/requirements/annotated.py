"""The requirements that a lake's file says its tables have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from singerlake.annotations.requirement import Requirement, parse_all
from singerlake.errors import UsageError
from singerlake.format.metadata import LakeFile
from singerlake.format.names import TableName
from singerlake.log import lake_file
from singerlake.storage.base import Store


def required(
    store: Store, names: Iterable[TableName], given: Sequence[str] = ()
) -> dict[TableName, tuple[Requirement, ...]]:
    """Return the requirements of tables' snapshots: those annotated, and more that are given.

    Raises:
        UsageError: One cannot be read.
        DamagedError: The lake's file cannot be read, so that its requirements are not known.
    """
    file = lake_file.read(store) or LakeFile()
    return {name: parse_all([*file.requirements_of(name), *given]) for name in names}


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
