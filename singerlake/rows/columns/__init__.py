"""What columns hold: their Arrow types, and the one canonical text of each value."""
