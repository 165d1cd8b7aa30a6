"""Destinations of published rows: plain files behind a pointer, Iceberg tables, Delta tables."""
