"""Requirements that a snapshot must meet before it gets a version: write, audit, publish."""
