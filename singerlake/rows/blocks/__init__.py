"""From a block's bytes to typed rows under the table's schema now."""
