"""Differences between two states of a table, or between two versions of a lake."""
