"""Schema overrides of a table's columns: the plan and the commit."""
