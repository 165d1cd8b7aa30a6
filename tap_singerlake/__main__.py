"""The command ``tap-singerlake``, and ``python -m tap_singerlake``."""

from __future__ import annotations

from singerlake.plugins.quick_imports import UNUSED_BY_TAP, quick_import


def main() -> None:
    """Run the tap from the command line."""
    quick_import("tap_singerlake.tap", UNUSED_BY_TAP).main()


if __name__ == "__main__":
    main()
