"""What a change asks of rows, held against the rows that there are."""
