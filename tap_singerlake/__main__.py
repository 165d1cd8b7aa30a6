"""The command ``tap-singerlake``, and ``python -m tap_singerlake``."""

from __future__ import annotations

from singerlake.plugins.quick_imports import quick_import


def main() -> None:
    """Run the tap from the command line."""
    quick_import("tap_singerlake.tap").main()


if __name__ == "__main__":
    main()
