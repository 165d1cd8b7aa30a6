"""Whether lines of a file are certain to be valid records, found out by two processes at once.

Decoding is most of what a file of JSON lines costs, and Python decodes on one processor. RECORD
lines come from a tap, which needs the other one; a file lies there, and nobody else works on it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import signal
import struct
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn, TypeVar

from singerlake.errors import SingerlakeError
from target_singerlake.chunk import Chunk
from target_singerlake.validation import Validator

S = TypeVar("S")

DOUBTFUL, PROVEN, PROVEN_UNTIMED = range(3)
"""Of lines: that they need a closer look; that all are valid records; and that, where none of
these says a time of its own."""
LEAST_BYTES = 512 << 10
"""Files with fewer bytes are read before another process is of any use."""
_AHEAD = 4
"""Chunks that may wait for the other process."""
_WAITING = 8
"""Chunks that may wait for one before them, so that no process waits for the other."""
_SLOT = 512 << 10
"""Bytes of each that it has; what is larger is proven here."""
_REQUEST = struct.Struct("=BIB")
"""A slot, how many bytes are in it, and the number of the stream's validator."""
_NEW = 255
"""In the place of a slot: a validator follows, of so many bytes."""
_LOST = 254
"""In the place of an answer that will not come."""
_MOST_STREAMS = 200


def prove(validator: Validator, data: bytes) -> int:
    """Find out by one decoding whether lines are valid records, as nearly always.

    Args:
        validator: Of their stream.
        data: Whole lines.

    Returns:
        ``DOUBTFUL``, ``PROVEN`` or ``PROVEN_UNTIMED``.
    """
    chunk = Chunk(data)
    if validator.decoder is None or not chunk.plain:
        return DOUBTFUL
    if validator.values.may_leave_the_calendar(data):
        return DOUBTFUL
    if validator.untimed is not None and chunk.decode(validator.untimed):
        return PROVEN_UNTIMED
    if not chunk.decode(validator.decoder):
        return DOUBTFUL
    return PROVEN if _may_say_times(data) else PROVEN_UNTIMED


def _may_say_times(data: bytes) -> bool:
    """Tell whether a record may have an ``_sdc_extracted_at``, which may be spelled in escapes."""
    # From the right, and the backslash first, which is quickly found not to be there.
    escaped = b"\\" in data and data.rfind(b"\\u00") >= 0
    return escaped or data.rfind(b"_sdc_extracted_at") >= 0


class Proofs:
    """Proves the lines of a run's files, with another process where that is worth it.

    The other one gets bytes and says what :func:`prove` says of them, no more: it opens nothing,
    and nothing depends on it. If it ends, what it had is proven here.
    """

    def __init__(self) -> None:
        self._other: _Other | None = None
        self._decided = False
        self._bytes = 0

    def begin(self, size: int) -> None:
        """Start the other process, once and if it is worth it.

        Args:
            size: Bytes of the files that come next, as far as they are known.
        """
        self._bytes += size
        if not self._decided and self._bytes >= LEAST_BYTES:
            self._decided = True
            if _possible():
                with suppress(OSError):  # no more processes, no more memory
                    self._other = _Other()

    def of(
        self, pieces: Iterator[tuple[S, bytes, bool]], validator: Validator | None
    ) -> Iterator[tuple[S, bytes, int]]:
        """Yield pieces of files in their order, each with what is known of it.

        Args:
            pieces: Where each comes from, whole lines, and whether the other process may have them.
            validator: Of their stream; None where nothing can be proven.

        Raises:
            SingerlakeError: Whatever ``pieces`` raises, after all that came before it.
        """
        waiting: deque[tuple[S, bytes, int | None]] = deque()
        try:
            yield from self._in_order(pieces, validator, waiting)
        finally:
            if waiting:  # nobody wants them any more, and its answers would be taken for others
                self.close()

    def _in_order(
        self,
        pieces: Iterator[tuple[S, bytes, bool]],
        validator: Validator | None,
        waiting: deque[tuple[S, bytes, int | None]],
    ) -> Iterator[tuple[S, bytes, int]]:
        wrong: SingerlakeError | None = None
        while True:
            try:
                piece = next(pieces, None)
            except SingerlakeError as error:  # what was read before it comes first
                wrong, piece = error, None
            if piece is None:
                break
            source, data, shared = piece
            del piece
            shared = shared and len(data) <= _SLOT
            if validator is None or self._other is None or not shared:
                yield from self._first(waiting, validator, leave=0)  # not many large ones at once
                yield source, data, _proven_here(validator, data)
                del data
            else:
                sent = self._other.send(validator, data)
                waiting.append((source, data, None if sent else prove(validator, data)))
                del data
                yield from self._first(waiting, validator, leave=_WAITING)
        yield from self._first(waiting, validator, leave=0)
        if wrong is not None:
            raise wrong

    def _first(
        self,
        waiting: deque[tuple[S, bytes, int | None]],
        validator: Validator | None,
        leave: int,
    ) -> Iterator[tuple[S, bytes, int]]:
        """Yield those that are known; wait where more would be left than that."""
        while waiting:
            source, data, known = waiting[0]
            if known is None:
                answered = self._answer(wait=len(waiting) > leave)
                if answered is None:
                    return
                known = answered
            waiting.popleft()
            yield source, data, _proven_here(validator, data) if known == _LOST else known
            del data

    def _answer(self, *, wait: bool) -> int | None:
        return _LOST if self._other is None else self._other.answer(wait=wait)

    def close(self) -> None:
        """End the other process."""
        if self._other is not None:
            self._other.close()
            self._other = None


def _proven_here(validator: Validator | None, data: bytes) -> int:
    return DOUBTFUL if validator is None else prove(validator, data)


def _possible() -> bool:
    """Whether this process can be forked, and there is a processor for another."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    return len(os.sched_getaffinity(0)) > 1


class _Other:
    """The other process, as this one sees it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _AHEAD * _SLOT)
        self._validators: list[Validator] = []
        self._sent = self._answered = 0
        reading, self._requests = os.pipe()
        self._answers, writing = os.pipe()
        self._answered_already = select.poll()
        self._answered_already.register(self._answers, select.POLLIN)
        self._alive = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that libraries started
            self.process = os.fork()
        if not self.process:
            _serve(self._memory, reading, writing)
        os.close(reading)
        os.close(writing)

    def send(self, validator: Validator, data: bytes) -> bool:
        """Hand over lines, unless there is no room; tell whether that was done."""
        if not self._alive or self._sent - self._answered >= _AHEAD:
            return False
        try:
            number = self._number(validator)
            if number < 0:
                return False
            slot = self._sent % _AHEAD
            self._memory[slot * _SLOT : slot * _SLOT + len(data)] = data
            os.write(self._requests, _REQUEST.pack(slot, len(data), number))
        except OSError:  # it has ended
            self._alive = False
            return False
        self._sent += 1
        return True

    def answer(self, *, wait: bool) -> int | None:
        """Return what it says of the first lines that it has not answered; None if not yet."""
        if self._alive and (wait or self._answered_already.poll(0)):
            answer = os.read(self._answers, 1)
            self._alive = bool(answer)
            if answer:
                self._answered += 1
                return answer[0]
        return None if self._alive else _LOST

    def close(self) -> None:
        """End it, and wait for that."""
        for pipe in (self._requests, self._answers):
            os.close(pipe)
        with suppress(ChildProcessError):
            os.waitpid(self.process, 0)
        self._memory.close()

    def _number(self, validator: Validator) -> int:
        """Return the number that a validator has there; less than 0 where it cannot have one."""
        for number, known in enumerate(self._validators):
            if known is validator:
                return number
        if len(self._validators) >= _MOST_STREAMS:
            return -1
        made = pickle.dumps(validator.made_of)
        self._validators.append(validator)
        _write_all(self._requests, _REQUEST.pack(_NEW, len(made), 0) + made)
        return len(self._validators) - 1


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _serve(memory: mmap.mmap, requests: int, answers: int) -> NoReturn:
    """Answer, as the other process, until nobody asks any more."""
    try:
        # A terminal's Ctrl-C is for the one that knows what is half done; it lets go of this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _keep_only(requests, answers)
        validators: list[Validator] = []
        while request := os.read(requests, _REQUEST.size):
            slot, length, number = _REQUEST.unpack(request)
            if slot == _NEW:
                validators.append(Validator(**pickle.loads(_read_all(requests, length))))  # noqa: S301
                continue
            data = memory[slot * _SLOT : slot * _SLOT + length]
            os.write(answers, bytes([prove(validators[number], data)]))
    finally:
        os._exit(0)


def _keep_only(*kept: int) -> None:
    """Close everything else: who waits for the end of an output, or for a lock, is not held up."""
    end = 0
    for one in sorted(kept):
        os.closerange(end, one)
        end = one + 1
    os.closerange(end, os.sysconf("SC_OPEN_MAX"))


def _read_all(pipe: int, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += os.read(pipe, length - len(data))
    return data
