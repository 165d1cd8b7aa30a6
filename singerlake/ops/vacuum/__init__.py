"""Delete what nothing needs any more, write small blocks together, let history expire."""
