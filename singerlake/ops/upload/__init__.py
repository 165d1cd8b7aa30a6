"""Put the rows of files into a table, or make a table of them."""
