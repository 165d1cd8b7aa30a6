"""Queries of a lake: SQL, frames, the difference of two states, the versions of a row."""

from singerlake import extras

# Whichever way somebody came here: better this than an ImportError from within.
extras.require("pyspark", "a Spark job")
