"""What is left of rows and texts in a lake: the search, and what it finds."""
