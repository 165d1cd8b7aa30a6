"""A table's state as a Spark frame: newest rows, index, layers, fingerprint."""

from singerlake import extras

# Whichever way somebody came here: better this than an ImportError from within.
extras.require("pyspark", "a Spark job")
