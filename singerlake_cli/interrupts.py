"""Ctrl-C: one line on standard error and exit code 130, whatever is going on.

The signal finds Python amid a call into Java as often as not. The answer to that call would come
before the answer to any other, so Python asks nothing more: the handler ends Java, and its work for
us with it. Calls that clean up after the interrupt then fail at once, with errors of their own. So
:func:`came` tells an interrupt from other errors, and the error that comes out last does not.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from singerlake_cli import live_line

EXIT_CODE = 128 + signal.SIGINT
NOTHING = "interrupted; nothing was changed"
READ = "interrupted before it was done"
"""A command that only reads would have changed nothing either way."""
SOMETHING = "interrupted; what was done before stays"
_AGAIN_SECONDS = 0.01


class _State:
    """The interrupts of this process; there is one terminal, and one Ctrl-C.

    Attributes:
        shown: Whether it was said.
        on_a_bar: Whether a progress bar stood where the terminal showed ^C; erasing it erased both.
        installed: Whether this process is the command's, so that nobody else handles it.
        writes: Whether the command also changes what is not committed by a log entry.
        reads: Whether the command changes nothing whatever happens.
        java: Whether the command has asked for Java.
        in_shell: Whether it is one of many in this process.
        goes_on: Whether the process goes on to others when it was interrupted.
        hook: The function that otherwise prints errors of finalizers.
    """

    came = False
    shown = False
    on_a_bar = False
    installed = False
    writes = False
    reads = False
    java = False
    in_shell = False
    goes_on = False
    hook: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__


def came() -> bool:
    """Tell whether this process was interrupted."""
    return _State.came


def is_echoed() -> bool:
    """Tell whether the terminal still shows ^C at the end of a line."""
    return not _State.on_a_bar


def message() -> str:
    """Return the message: that nothing was changed, if that is certain."""
    # Only where a command has imported it: it takes time.
    commits = sys.modules.get("singerlake.log.commit")
    begun = commits is not None and commits.CommitMark.any
    if begun or _State.writes:
        return SOMETHING
    return READ if _State.reads else NOTHING


def note_writes() -> None:
    """Note that the command changes more than what it commits."""
    _State.writes = True


def note_reads() -> None:
    """Note that the command only reads."""
    _State.reads = True


def note_java() -> None:
    """Note that the command asks for Java, which an interrupt then ends."""
    _State.java = True


def in_shell() -> bool:
    """Tell whether this process runs many commands."""
    return _State.in_shell


@contextmanager
def in_a_shell(*, goes_on: bool) -> Iterator[None]:
    """Run many commands.

    Args:
        goes_on: Whether Ctrl-C ends the one that runs, and not the process.
    """
    _State.in_shell, _State.goes_on = True, goes_on
    try:
        yield
    finally:
        _State.in_shell = _State.goes_on = False


def next_command() -> None:
    """Forget what happened to the command before."""
    _State.came = _State.shown = _State.on_a_bar = False
    _State.writes = _State.reads = _State.java = False
    if (commits := sys.modules.get("singerlake.log.commit")) is not None:
        commits.CommitMark.any = False
    logging.disable(logging.NOTSET)


def first_told() -> bool:
    """Tell, on the first call only, whether the interrupt has not been reported yet."""
    first, _State.shown = not _State.shown, True
    return first


@contextmanager
def kept() -> Iterator[None]:
    """Keep Ctrl-C to this handler: Spark's, set at its start, asks Java within a call.

    Does nothing in others' processes.
    """
    if not _State.installed:
        yield
        return
    set_handler = signal.signal

    def set_others(signum: int, handler: Any) -> Any:
        return signal.getsignal(signum) if signum == signal.SIGINT else set_handler(signum, handler)

    signal.signal = set_others  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = set_handler


def install() -> None:
    """Handle Ctrl-C in this process, which is the command's.

    If the signal is ignored, as it is for jobs in a script's background, it stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    _State.installed = True
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return
    signal.signal(signal.SIGINT, _interrupt)
    if sys.unraisablehook != _not_lost:
        _State.hook = sys.unraisablehook
        sys.unraisablehook = _not_lost


def end_at_once() -> None:
    """Let Ctrl-C end the process from now on: all is done except cleaning up at exit."""
    if signal.getsignal(signal.SIGINT) == _interrupt:
        signal.signal(signal.SIGINT, _end)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; a second Ctrl-C ends the process if cleaning up takes long.

    In a shell it ends the cleaning up; what it leaves, a next command finds as after any crash.
    """
    if _is_in_hook(frame):
        _come_again()
        return
    if _State.came and not _State.goes_on:
        _end(signum, frame)
    _State.came, _State.on_a_bar = True, live_line.is_shown()
    logging.disable()  # py4j logs the interrupt, and then that Java is gone
    if _State.goes_on and not _State.java:
        raise KeyboardInterrupt  # nothing was asked of Java: it is kept for the next command
    # Only where a job has imported it; its module imports pyspark.
    if (session := sys.modules.get("singerlake.engine.spark.jvm.session")) is not None:
        session.end_java()
    raise KeyboardInterrupt


def _end(_signum: int, _frame: FrameType | None) -> None:
    if first_told():
        erase = live_line.ERASE if live_line.is_shown() else ""
        os.write(2, f"{erase}error: {message()}\n".encode())
    os._exit(EXIT_CODE)


def _not_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise again an interrupt that came within a finalizer, where Python can only print it."""
    if unraisable.exc_type is KeyboardInterrupt:
        _State.came = False
        _come_again()
    elif not _State.came:  # else it is a finalizer's that misses Java
        _State.hook(unraisable)


def _come_again() -> None:
    """Let the signal come once more, a little later: what is raised now would be lost."""
    main = threading.main_thread().ident
    # A real signal, which also ends whatever the main thread waits for by then.
    threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT)).start()


def _is_in_hook(frame: FrameType | None) -> bool:
    """Tell whether :func:`_not_lost` is still at work, from which Python lets no error out."""
    while frame is not None:
        if frame.f_code is _not_lost.__code__:
            return True
        frame = frame.f_back
    return False
