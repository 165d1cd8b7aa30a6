"""The rows of a table's state: keys, activations, newest rows, indexes."""
