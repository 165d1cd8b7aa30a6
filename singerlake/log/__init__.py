"""How a table changes: the log, its checkpoint, staged blocks, commits and locks."""
