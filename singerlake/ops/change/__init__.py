"""Change rows: from what is asked of them to the commit."""
