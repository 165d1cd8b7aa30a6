"""Validation of records by JSON Schema: at a glance by types, or in full."""
