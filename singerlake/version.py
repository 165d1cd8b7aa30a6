"""The release, and the on-disk format that it writes."""

__version__ = "0.1.0"
FORMAT = 5
"""The newest on-disk format that this release reads and writes."""
