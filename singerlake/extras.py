"""What only works where an extra of the package is installed, and how to install that."""

from __future__ import annotations

from importlib.util import find_spec

from singerlake.errors import RuntimeMissingError

EXTRAS = {"pyspark": "spark", "pandas": "pandas", "polars": "polars", "duckdb": "duckdb"}
"""The extra of the package that brings each library."""


def require(library: str, purpose: str, otherwise: str = "") -> None:
    """Make sure that a library of an extra is installed.

    Args:
        library: Its name, as it is imported.
        purpose: What needs it, as the beginning of a sentence.
        otherwise: Another way, as the end of one.

    Raises:
        RuntimeMissingError: It is not; the message says the line that installs it.
    """
    if find_spec(library) is None:
        raise RuntimeMissingError(
            f"{purpose} needs {library}, which is not installed: "
            f"pip install 'singerlake[{EXTRAS[library]}]'{otherwise}"
        )
