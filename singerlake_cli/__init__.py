"""The `singerlake` command."""
