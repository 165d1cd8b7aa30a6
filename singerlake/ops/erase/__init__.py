"""Erase: take rows out of everything that is a table's own, for good.

``tables.py`` is the operation: several tables, and what is published of them. ``table.py`` erases
rows of one table: find the lines, write their files again without them, prove it, commit, delete.
"""
