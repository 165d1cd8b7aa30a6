"""Verifying a table: its blocks, its versions and its indexes, by Spark or in this process."""
