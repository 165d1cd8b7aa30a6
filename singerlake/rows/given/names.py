"""The columns that a file names: each once, each one of the table's, and the whole key."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import InputError
from singerlake.nearest import offer
from singerlake.quantities import repeated
from singerlake.rows.given.rows import special_names


def check_distinct(source: str, names: Sequence[str]) -> None:
    """Refuse a file in which a column has no name, or two have the same.

    Args:
        source: What messages call the file.
        names: Its columns.

    Raises:
        InputError: So it is.
    """
    if not names:
        raise InputError(f"{source} has no columns: there is nothing to upload")
    if "" in names:
        number = list(names).index("") + 1
        raise InputError(f"{source}: column {number:,} has no name: name each column")
    if twice := repeated(names):
        raise InputError(f"{source} has the column {twice[0]!r} twice: rename or drop one")


def check_named(
    source: str, names: Sequence[str], columns: Sequence[str], keys: Sequence[str]
) -> None:
    """Make sure that a table can take the columns of a file.

    Args:
        source: What messages call the file.
        names: Its columns.
        columns: The table's.
        keys: Those that are its key.

    Raises:
        InputError: It cannot; names the first column in the way, and what may have been meant.
    """
    check_distinct(source, names)
    special = special_names(columns)
    known = {*columns, *special}
    for name in names:
        if name not in known:
            raise InputError(
                f"{source} has the column {name!r}, which the table does not have: "
                f"{offer(name, columns)}"
            )
    missing = [key for key in keys if key not in names]
    if missing and special.row_id not in names:
        raise InputError(
            f"{source} lacks the column {missing[0]!r}, which is part of the table's key and "
            "identifies the rows"
        )
