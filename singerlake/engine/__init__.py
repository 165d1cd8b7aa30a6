"""Running the steps of an operation: in this process, or on Spark."""
