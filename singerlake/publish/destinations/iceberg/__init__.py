"""Iceberg tables, by pyiceberg. Imported only where a projection is published as one."""
