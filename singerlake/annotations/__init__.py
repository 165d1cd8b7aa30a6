"""Annotations by people and jobs: set, checked, kept, exported. Plain data; no terminal."""
