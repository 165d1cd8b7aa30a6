"""``python -m tap_singerlake``."""

from __future__ import annotations

from tap_singerlake.tap import main

if __name__ == "__main__":
    main()
