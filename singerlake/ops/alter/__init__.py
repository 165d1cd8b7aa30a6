"""Alter: what people say of a table's columns, its key and its rows."""
