"""What is asked in SQL, and states as Spark frames: what a query may ask, and what comes back."""

from singerlake import extras

# Whichever way somebody came here: better this than an ImportError from within.
extras.require("pyspark", "a Spark job")
