"""Hold a table, or a lake, against its log."""
