"""A table's state as a Spark frame: newest rows, index, layers, fingerprint."""
