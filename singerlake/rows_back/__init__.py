"""Rows that go back to what they were: reverts and undos, with Spark and without."""
