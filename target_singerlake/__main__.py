"""The command ``target-singerlake``, and ``python -m target_singerlake``."""

from __future__ import annotations

from singerlake.plugins.quick_imports import quick_imports


def main() -> None:
    """Run the target from the command line."""
    with quick_imports():
        from target_singerlake import target

    target.main()


if __name__ == "__main__":
    main()
