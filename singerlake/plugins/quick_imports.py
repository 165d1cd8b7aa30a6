"""How a plugin's command imports what it needs in a third less time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
