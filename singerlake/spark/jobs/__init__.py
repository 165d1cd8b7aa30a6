"""One file a job: what a command that needs Spark does, from plan to commit."""
