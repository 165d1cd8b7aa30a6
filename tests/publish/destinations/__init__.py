"""Places where rows are published; all do what ``contract.py`` says."""
