"""Singerlake: a lake of raw Singer messages that behaves like versioned tables."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # pip refuses it, but a checkout needs no pip
    raise ImportError(
        f"Singerlake needs Python 3.10 or later, and this is {sys.version.split()[0]}"
    )

__version__ = "0.1.0"
FORMAT = 2
"""The number of the on-disk format this release writes, and the newest it reads."""
