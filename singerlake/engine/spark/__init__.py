"""Spark as an engine, and what it runs on: a session on a Java that is found and started."""
