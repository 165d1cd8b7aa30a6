"""``python -m singerlake_cli``: the command ``singerlake``."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends it without a word."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from singerlake_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
