"""The meaning of bytes: names, hashes, blocks, the log's entries. Pure, no I/O."""
