"""Projections: tables made of a lake's tables, staged in the lake or published for any reader."""
