"""``python -m singerlake_cli``: the command ``singerlake``."""

from __future__ import annotations

from singerlake_cli.main import main

if __name__ == "__main__":
    main()
