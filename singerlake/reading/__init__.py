"""A table's state without Spark: its index on the store, and its rows as Arrow batches."""
