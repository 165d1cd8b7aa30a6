"""Standard output: whole lines, in big writes, and a clean end when it must end early."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from typing import Any

from singer_sdk.helpers._state import StateWriter
from singer_sdk.singerlib.encoding.simple import Message, SimpleSingerWriter
from singer_sdk.singerlib.json import serialize_json

from singerlake.errors import StoreError

POLL_MS = 200
"""How long a signal may go unseen while nobody reads the pipe."""

LINE_SECONDS = 1.0
"""How long the line that a signal struck may take to its end."""


class EarlyEndError(SystemExit):
    """The run ends before its work does, without a word: exit code as a shell shows it."""

    code: int

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)


class ClosedPipeError(EarlyEndError):
    """Nobody reads any more (``tap | head -1``)."""

    def __init__(self) -> None:
        super().__init__(signal.SIGPIPE)


class Output:
    """Writes lines to what ``sys.stdout`` is at that moment.

    Attributes:
        bytes: Bytes written so far.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._writing = False
        self._signum: int | None = None

    def write(self, data: bytes, start: int = 0) -> None:
        """Write whole lines and have them out of this process.

        Args:
            data: Lines, each with its newline.
            start: Leave out the bytes before this one, without a copy of the others.

        Raises:
            ClosedPipeError: Nobody reads any more.
            EarlyEndError: A signal came; the line it struck is complete.
            StoreError: The output refused: a full disk, for example.
        """
        self._writing = True
        try:
            self._write(data, start)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedPipeError from error
        except OSError as error:
            words = error.strerror or str(error)
            raise StoreError(f"cannot write to standard output: {words}") from error
        finally:
            self._writing = False
        self.bytes += len(data) - start
        self._check()

    def interrupt(self, signum: int) -> None:
        """End the run: at once, or where a write is under way, with the line it is in.

        Called by a signal handler. Raising amid a write would leave unknown how far it came.

        Raises:
            EarlyEndError: No write is under way.
        """
        self._signum = signum
        if not self._writing:
            self._check()

    def _check(self) -> None:
        if self._signum is not None:
            raise EarlyEndError(self._signum)

    def _write(self, data: bytes, start: int) -> None:
        stdout = sys.stdout
        stdout.flush()  # what was printed comes first
        buffer = getattr(stdout, "buffer", None)
        # With PYTHONUNBUFFERED there is no buffer in between.
        raw = buffer.raw if isinstance(buffer, io.BufferedWriter) else buffer
        if isinstance(raw, io.FileIO):
            self._write_descriptor(raw.fileno(), data, start)
        elif buffer is not None:  # tests put something of their own in place
            buffer.write(memoryview(data)[start:])
            buffer.flush()
        else:
            stdout.write(data[start:].decode("utf-8"))

    def _write_descriptor(self, fd: int, data: bytes, start: int) -> None:
        """Write without a buffer, so that it is always known how much is out.

        ``poll`` comes before each write: a write to a pipe with room takes something at
        once, so a signal cuts it short instead of leaving it waiting for a reader.
        """
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        view = memoryview(data)
        end, deadline = len(data), 0.0
        while start < end:
            if self._signum is not None and not deadline:
                deadline = time.monotonic() + LINE_SECONDS
                end = _line_end(data, start)
                continue
            if deadline and time.monotonic() > deadline:
                return
            if not poll.poll(POLL_MS) or (self._signum is not None and not deadline):
                continue
            try:
                start += os.write(fd, view[start:end])
            except BlockingIOError:
                continue  # somebody made the pipe non-blocking


def _line_end(data: bytes, at: int) -> int:
    """Return where the line ends that byte ``at`` is inside of; ``at`` itself between two lines."""
    if at == 0 or data[at - 1 : at] == b"\n":
        return at
    return data.find(b"\n", at) + 1 or len(data)


class LineWriter(SimpleSingerWriter):
    """The SDK's message writer, on the same output as the blocks."""

    def __init__(self, output: Output | None = None) -> None:
        self.output = output or Output()

    def write_message(self, message: Message) -> None:
        """Write one message as a line."""
        self.output.write(self.format_message(message).encode() + b"\n")


class BorderStateWriter(StateWriter):
    """Writes STATE lines, but not the same twice in a row.

    The SDK's own compares with a deep copy that it makes each time; a bookmark moves at each
    of maybe thousands of transactions, so the lines themselves are compared.
    """

    def __init__(self, writer: LineWriter) -> None:
        super().__init__(writer)
        self._output = writer.output
        self._last = b""
        self._end = -1

    def write_state(self, state: Any) -> None:
        """Write the state if it has changed."""
        line = serialize_json({"type": "STATE", "value": state}).encode() + b"\n"
        if line != self._last:
            self._output.write(line)
            self._last, self._end = line, self._output.bytes

    def write_last(self, state: Any) -> None:
        """Write the state once more if anything but it was written last."""
        if self._output.bytes != self._end:
            self._last = b""
            self.write_state(state)
