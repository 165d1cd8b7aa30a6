"""Jobs that stage projections and publish them, whole or by what changed."""
