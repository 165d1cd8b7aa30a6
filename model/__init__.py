"""The protocol as a model in TLA+, and what holds it to be right: see ``docs/model.md``."""
