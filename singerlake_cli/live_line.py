"""The terminal's live line, which is redrawn often, and gives way to all other output.

After each drawing the cursor is back at the line's beginning, and is never hidden. So the ``^C``
that a terminal echoes cannot wrap onto a second line, and a process that is killed leaves a
terminal that works.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

ERASE = "\r\x1b[2K"
_lock = threading.RLock()
_stream: TextIO | None = None


def draw(stream: TextIO, text: str) -> None:
    """Draw the line in place of what it was.

    Args:
        text: Narrower than the terminal.
    """
    global _stream  # noqa: PLW0603  # one terminal, one live line
    with _lock:
        _stream = stream
        stream.write(f"\r{text}\x1b[K\r")
        stream.flush()


def erase() -> None:
    """Take the line off the screen, if there is one."""
    global _stream
    with _lock:
        if _stream is not None:
            stream, _stream = _stream, None
            stream.write(ERASE)
            stream.flush()


@contextmanager
def aside() -> Iterator[None]:
    """Keep the line off the screen while something is printed."""
    with _lock:
        erase()
        yield


def is_shown() -> bool:
    """Tell whether the line is on the screen."""
    return _stream is not None


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]  # a class alone on Python 3.10
    """A handler for log records that no other takes, as :data:`logging.lastResort` is."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record where standard error is now."""
        with aside():
            self.stream = sys.stderr
            super().emit(record)
