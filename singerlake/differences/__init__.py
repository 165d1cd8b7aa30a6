"""What differs between two states of a table: which rows, and what stands in them."""
