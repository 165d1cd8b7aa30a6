"""The `singerlake` command."""

import singerlake  # noqa: F401  # first of all: it says so where Python is too old
