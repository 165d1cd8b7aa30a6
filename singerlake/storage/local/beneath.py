"""A folder of a lake entered in one call of the system, which follows no symbolic link on the way.

Linux has ``openat2`` since 5.6. From Python it is reached by its number, for neither Python nor
most C libraries have a name for it. Where it is not to be had, and wherever it says anything but
yes, each folder is opened from the one before it (``files.py``), and that way says what is wrong.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_NUMBER = 437
"""Of the call, on every processor that Linux and Python run on."""
_HERE = -100
"""Stands for the folder that the process is in."""
_NO_LINKS, _BENEATH = 0x04, 0x08
_NOT_THERE = frozenset((errno.ENOSYS, errno.EPERM))
"""What older systems say, and containers that let only those calls through that they know."""
_NO_NAMES = frozenset(("", ".", ".."))


class _How(ctypes.Structure):
    """What ``openat2`` is told: ``struct open_how``."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class WholeWay:
    """Enters folders by the whole way to them.

    Args:
        call: The system's ``syscall``.
    """

    def __init__(self, call: Callable[..., int]) -> None:
        self._call = call
        self._there = True
        self._by_links: set[Path] = set()
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._anywhere = _How(flags, 0, _NO_LINKS)
        self._beneath = _How(flags, 0, _NO_LINKS | _BENEATH)

    def enter(self, root: Path, parts: Sequence[str]) -> int | None:
        """Return a descriptor that only leads into a folder; None where it is not to be had so.

        Args:
            root: The lake's own folder.
            parts: The names of the folders on the way from there.

        Raises:
            FileNotFoundError: One of them is not there.
        """
        way = "/".join(parts)
        # It would be another way: a text ends at NUL for C, and "//" is "/" for the system.
        named = parts and _NO_NAMES.isdisjoint(parts) and "\0" not in way
        if not named or not self._there:
            return None
        if root not in self._by_links:
            handle = self._opened(_HERE, f"{root}/{way}", self._anywhere)
            if handle is not None or ctypes.get_errno() != errno.ELOOP:
                return handle
            self._by_links.add(root)  # on the way to the lake links are the user's choice
        outer = os.open(root, os.O_PATH | os.O_DIRECTORY)
        try:
            return self._opened(outer, way, self._beneath)
        finally:
            os.close(outer)

    def _opened(self, folder: int, way: str, how: _How) -> int | None:
        told, size = ctypes.byref(how), ctypes.sizeof(how)
        handle = self._call(_NUMBER, folder, os.fsencode(way), told, size)
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number == errno.ENOENT:
            raise FileNotFoundError(number, os.strerror(number), way)
        if number in _NOT_THERE:
            self._there = False
        return None


def whole_way() -> WholeWay | None:
    """Return what enters folders by the whole way; None where the system has no such call."""
    if sys.platform != "linux":
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    call.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t
    call.restype = ctypes.c_long
    return WholeWay(call)
