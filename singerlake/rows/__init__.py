"""The meaning of records' bytes, and the rows that given rows become. No Spark."""
