"""The history of a row, on both engines."""
