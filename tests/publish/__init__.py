"""Projections: declared, staged, published."""
