"""Where rows are published: plain files behind a pointer, Iceberg tables, Delta tables."""
