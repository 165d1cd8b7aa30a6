"""Singerlake beside its peers, one topic a module. See README.md."""
