"""CSV files: split among tasks, read fast where that is safe, and exactly elsewhere."""
