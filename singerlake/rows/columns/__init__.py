"""Contents of columns: their Arrow types, and the one canonical text of each value."""
