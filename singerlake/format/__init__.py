"""What bytes mean: names, hashes, blocks, the log's entries. Pure, no I/O."""
