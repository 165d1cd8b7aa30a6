"""SQL without Java: statements of a small set, which DuckDB answers as Spark does.

``text.py`` reads a statement, ``statement.py`` and ``expressions.py`` hold it against the set and
write it anew for DuckDB, and ``duck.py`` runs it. No text of a user's reaches DuckDB but literals,
as values.
"""
