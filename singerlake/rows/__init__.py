"""What the bytes of records mean, and what rows that people give become. No Spark."""
