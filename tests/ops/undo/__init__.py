"""Undo, on both engines."""
