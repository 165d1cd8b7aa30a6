"""Files and rows that people give: found, checked, and read as rows of a table."""
