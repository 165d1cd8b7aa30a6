"""Parquet files and Arrow batches, as rows of a table."""
