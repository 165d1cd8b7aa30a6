"""Copy tables and versions to another store, byte for byte."""
