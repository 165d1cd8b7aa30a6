"""Files that rows name, on their way into a lake: found, read, checked, stored once."""
