"""Rows that a change is asked for, whatever they come from: files, frames, SQL or ids."""
