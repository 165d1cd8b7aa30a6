"""Make a table: empty, or of what a query gives."""
