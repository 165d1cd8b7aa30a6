"""Changes of rows, compared with the rows that there are."""
