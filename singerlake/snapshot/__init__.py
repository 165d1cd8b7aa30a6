"""The rows of a state: read from blocks, kept in files, summed up."""
