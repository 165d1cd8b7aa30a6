"""Rejected records: what a dead-letter table holds, and how its records become rows after all."""
