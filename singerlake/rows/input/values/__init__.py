"""Types of the columns in files, and their cells as such values."""
