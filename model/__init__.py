"""The protocol as a model in TLA+, and what checks it: see ``docs/internals/model.md``."""
