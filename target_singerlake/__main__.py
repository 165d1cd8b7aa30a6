"""The command ``target-singerlake``, and ``python -m target_singerlake``."""

from __future__ import annotations

from singerlake.plugins.quick_imports import UNUSED_BY_TARGET, quick_import


def main() -> None:
    """Run the target from the command line."""
    quick_import("target_singerlake.target", UNUSED_BY_TARGET).main()


if __name__ == "__main__":
    main()
