"""Blocks written by executors: rows and lines find their task, tasks write files."""
