"""Rows go back to what they were: what reverts and undos have in common."""
