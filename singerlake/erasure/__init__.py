"""Erasure: where rows, or texts, still stand in a lake, in whatever object."""
