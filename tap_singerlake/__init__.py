"""A Singer tap that reads a lake."""
