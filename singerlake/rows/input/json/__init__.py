"""Files of JSON lines: split among tasks, and read as rows."""
