"""The jobs: what a command or a program that needs Spark does, each from plan to commit."""

from singerlake import extras

# Whichever way somebody came here: better this than an ImportError from within a job.
extras.require("pyspark", "a Spark job")
