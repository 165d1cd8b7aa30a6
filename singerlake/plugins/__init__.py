"""The common part of tap and target: their command line, their settings, their start."""
