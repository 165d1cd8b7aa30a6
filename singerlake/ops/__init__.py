"""What is done to tables, one module a verb: options, plan, run, result."""
