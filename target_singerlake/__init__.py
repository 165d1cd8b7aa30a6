"""A Singer target that writes a lake."""
