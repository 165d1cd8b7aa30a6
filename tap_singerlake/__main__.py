"""The command ``tap-singerlake``, and ``python -m tap_singerlake``."""

from __future__ import annotations

from singerlake.plugins.quick_imports import quick_imports


def main() -> None:
    """Run the tap from the command line."""
    with quick_imports():
        from tap_singerlake import tap

    tap.main()


if __name__ == "__main__":
    main()
