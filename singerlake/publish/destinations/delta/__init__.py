"""Delta tables, by deltalake. Imported only where a projection is published as one."""
