"""Which rows of the blocks make a table's state: keys, activations, newest rows, indexes."""
