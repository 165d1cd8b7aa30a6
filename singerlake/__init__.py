"""Singerlake: a lake of raw Singer messages that behaves like versioned tables."""

__version__ = "0.1.0"
FORMAT = 2
"""The number of the on-disk format this release writes, and the newest it reads."""
