"""The pages: what they show is run, and what they link is there."""
