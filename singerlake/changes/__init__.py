"""Rows that change: what is asked of them, compared with a table, written and committed."""
