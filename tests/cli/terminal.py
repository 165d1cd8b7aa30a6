"""A terminal for the tests: what something shows on one of so many columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress

import pytest

COLUMNS = (60, 80, 120)
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(columns: int, show: Callable[[], object], *, styled: bool = False) -> str:
    """What something writes to a terminal, standard error included, without colours.

    Args:
        columns: Of the terminal, which is a real one: the kernel's, with this size.
        show: Writes to standard output and standard error, in this process.
        styled: Keep colours, and all else that steers a terminal.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pieces: list[bytes] = []

    def read() -> None:  # beside the writer, for a terminal takes a few kilobytes and waits
        with suppress(OSError):  # the other end was closed
            while piece := os.read(ours, 1 << 16):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("TERM", "xterm-256color")
        reader.start()
        stack.callback(os.close, ours)
        stack.callback(reader.join)
        screen = stack.enter_context(os.fdopen(theirs, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(screen))
        stack.enter_context(redirect_stderr(screen))
        show()
        sys.stdout.flush()
    text = b"".join(pieces).decode("utf-8").replace("\r\n", "\n")
    return text if styled else _STYLES.sub("", text)
