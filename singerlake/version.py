"""The release, and the on-disk format that it writes."""

__version__ = "0.2.0"
FORMAT = 5
"""The newest on-disk format that this release reads and writes."""
