"""Rows that go back to what they were, without Spark."""
