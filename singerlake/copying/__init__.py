"""Copying a lake, or tables and versions of it, to another store, as a lake that opens."""
