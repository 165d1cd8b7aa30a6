"""Stage and publish projections."""
