"""Singerlake: a lake of raw Singer messages that behaves like versioned tables.

These names are the public interface; they keep their meaning from release to release::

    import singerlake

    lake = singerlake.open("s3://bucket/lake")
    orders = lake["tap-shop.orders"]
    for version in orders.versions():
        print(version.number, version.label, version.rows)
    orders.at("monday").to_arrow()

Importing it is cheap, and imports or starts no Spark: what needs it does so when it is called.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # pip refuses it, but a checkout needs no pip
    raise ImportError(
        f"Singerlake needs Python 3.10 or later, and this is {sys.version.split()[0]}"
    )

from typing import TYPE_CHECKING, Any

from singerlake.errors import (
    ConflictError,
    DamagedError,
    DataError,
    DroppedError,
    InputError,
    InvalidNameError,
    InvalidQueryError,
    LockTimeoutError,
    MisfitsError,
    NewerFormatError,
    NotDurableError,
    NotFoundError,
    OutcomeUnknownError,
    RejectedRowsError,
    RequirementsError,
    RuntimeMissingError,
    SingerlakeError,
    StoreError,
    UsageError,
    ViolationsError,
)
from singerlake.version import FORMAT, __version__

if TYPE_CHECKING:
    import io
    import os

    from singerlake.api import Lake, Table
    from singerlake.api.snapshot import Snapshot
    from singerlake.storage.options import StoreOptions

__all__ = [
    "FORMAT",
    "ConflictError",
    "DamagedError",
    "DataError",
    "DroppedError",
    "InputError",
    "InvalidNameError",
    "InvalidQueryError",
    "Lake",
    "LockTimeoutError",
    "MisfitsError",
    "NewerFormatError",
    "NotDurableError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RejectedRowsError",
    "RequirementsError",
    "RuntimeMissingError",
    "SingerlakeError",
    "Snapshot",
    "StoreError",
    "StoreOptions",
    "Table",
    "UsageError",
    "ViolationsError",
    "__version__",
    "open",
    "open_file",
]

_LATE = {
    "Lake": "singerlake.api",
    "Snapshot": "singerlake.api.snapshot",
    "Table": "singerlake.api",
    "StoreOptions": "singerlake.storage.options",
}
"""Imported when first asked for: every command imports this package, and few need all of them."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open(  # noqa: A001  # singerlake.open, as gzip.open
    uri: "str | os.PathLike[str] | None" = None,
    options: "StoreOptions | None" = None,
    *,
    create: bool = False,
    engine: str | None = None,
) -> "Lake":
    """Open a lake.

    Args:
        uri: A folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.
            By default the environment's SINGERLAKE_LAKE, else ``./lake``.
        options: Credentials, region and endpoint of the store. By default AWS's usual chain, or
            the variables of Google and Azure, find them.
        create: Start an empty lake where there is none.
        engine: What operations run on if they name no engine: ``local`` for this process,
            ``spark``, or ``auto`` for this process if the work is small and Spark otherwise. By
            default the environment's SINGERLAKE_ENGINE, else ``auto``.

    Raises:
        NotFoundError: There is no lake, and ``create`` is not set.
        UsageError: There is no such engine.
        NewerFormatError: A newer release wrote it.
        StoreError: The disk or the bucket refused.
    """
    from singerlake.api import Lake

    lake = Lake.open(uri, options, create=create)
    if engine is not None:
        lake.use_engine(engine)
    return lake


def open_file(file: Any, table: "Table") -> "io.BufferedReader":
    """Open a file that a row names, for reading; the same as :meth:`Table.open_file`.

    Args:
        file: What the row says of it: a dict, its JSON text, or the file's path alone.
        table: The row's table.

    Raises:
        UsageError: It names no file of a lake.
        DamagedError: The file is gone. While it is read: it is damaged.
        StoreError: The store refused.
    """
    return table.open_file(file)
