"""Stores of bytes: a local folder or a bucket, behind one small interface."""
