"""``python -m target_singerlake``."""

from target_singerlake.target import main

main()
