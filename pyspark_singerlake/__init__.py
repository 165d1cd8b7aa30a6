"""The registration of ``spark.read.format("singerlake")`` with Spark.

Spark imports every module whose name begins with ``pyspark_`` in the Python that it starts, and
looks for a ``DefaultSource`` in each. A module that fails to import ends that search for all
others as well, so this one imports nothing before it is asked, and then fails in no other way
than by having no such name.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]  # made when it is asked for


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from singerlake.api.spark_source import SingerlakeSource
        except Exception as error:  # whatever is wrong with an installation
            raise AttributeError(f"Singerlake cannot be imported: {error}") from error
        return SingerlakeSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
