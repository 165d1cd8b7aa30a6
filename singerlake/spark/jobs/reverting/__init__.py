"""Jobs that take back what was done: revert and undo."""
