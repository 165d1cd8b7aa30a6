"""Jobs that change a table's rows or columns, from what is asked to the commit."""
