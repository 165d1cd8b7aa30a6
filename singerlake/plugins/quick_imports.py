"""How a plugin's command imports what it needs in a third less time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_own: list[bool] = []


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


@contextmanager
def quick_imports() -> Iterator[None]:
    """Speed up the imports at the start of a command of its own.

    The Singer SDK takes nearly all of a plugin's start-up. It imports joblib, to drain sinks on
    several threads, and joblib numpy, to send arrays between processes: 130 ms, and threads of
    numpy's own, for nothing that a plugin here does. So numpy is not to be had meanwhile, which
    joblib is made for, and is afterwards. The collector finds nothing to free in what imports
    make, however often it looks through it: 40 ms.

    Not for a process that is somebody else's, where joblib may be wanted in full.
    """
    _own.append(True)
    hidden = "numpy" not in sys.modules
    if hidden:
        sys.modules["numpy"] = None  # type: ignore[assignment]  # import numpy: ImportError
    gc.disable()
    try:
        yield
    finally:
        if hidden:
            del sys.modules["numpy"]
        gc.freeze()  # nor shall it look through all that later
        gc.enable()
