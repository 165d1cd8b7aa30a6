"""The changes of a table: the log, its checkpoint, staged blocks, commits and locks."""
