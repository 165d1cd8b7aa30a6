"""SQL over a lake, and states as Spark frames: the queries that are allowed, and their results."""
