"""How a plugin's command imports what it needs, and not what it does not."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from singerlake.plugins.stand_ins import stand_ins

_own: list[bool] = []
_UNUSED = {
    "importlib_metadata": ("entry_points",),  # of other packages, of which some encode batches
    "joblib": ("Parallel", "delayed", "parallel_config"),  # and with it numpy and psutil
    "packaging.specifiers": ("SpecifierSet",),  # for --about
    "requests": (),
    "singer_sdk.streams.graphql": ("GraphQLStream",),
    "singer_sdk.streams.rest": ("RESTStream",),
    "upath": ("UPath",),  # and with it fsspec, asyncio
}
"""What the SDK imports, and of what it then makes no use in the plugins here."""


def spare_pandas() -> None:
    """Have Arrow do without pandas, which it imports with the first array that it makes.

    It costs 0.3 s and 30 MiB, only to know data frames when it meets them. In a process that is
    not a command's own, where there may be some, nothing is changed.
    """
    if _own and "pandas" not in sys.modules:
        import pyarrow as pa

        sys.modules["pandas"] = None  # type: ignore[assignment]  # import pandas: ImportError
        try:
            # Whatever it finds wrong with that, it looks for pandas only once.
            with suppress(AttributeError, ImportError):
                pa.array([])
        finally:
            del sys.modules["pandas"]


def quick_import(name: str) -> ModuleType:
    """Import the module of a command of its own.

    The Singer SDK takes most of a plugin's start-up, and half of that is for what no plugin here
    does: ask web services for rows, drain sinks on several threads, write batches in the SDK's own
    way. So other modules stand in for these meanwhile, and import the real ones if they are used
    after all. Where that does not do, as a later SDK may use them otherwise, all is imported.
    The collector finds nothing to free in what imports make, however often it looks through it:
    40 ms.

    Not for a process that is somebody else's: whatever it imports after this gets the real modules,
    but what it looks up in the SDK's modules may be a stand-in.

    Args:
        name: The module's.
    """
    _own.append(True)
    gc.disable()
    try:
        try:
            with stand_ins(_UNUSED):
                return import_module(name)
        except (ImportError, AttributeError, TypeError):
            return import_module(name)
    finally:
        gc.freeze()  # nor shall it look through all that later
        gc.enable()
