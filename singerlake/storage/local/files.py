"""Files and folders of a lake on a disk, reached step by step from the lake's own folder.

Each step is taken by the descriptor of the folder before it and follows no symbolic link, so
that no key leads out of the lake, whatever was planted in it and whoever swaps folders
meanwhile. Only the lake's own folder may be a link: that is the user's choice of a place. What is
opened is a regular file; a pipe in the place of one would hold its reader up for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from singerlake.errors import DamagedError, InvalidNameError

# With O_PATH (Linux) a folder that may be entered need not be readable as well.
_ENTER = os.O_DIRECTORY | getattr(os, "O_PATH", 0)
_STEP = _ENTER | os.O_NOFOLLOW
_PIECE = 1 << 16
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
LINK = (
    "is a symbolic link, which is not followed within a lake: replace it with its target, or "
    "remove it"
)


def parts_of(key: str) -> list[str]:
    """Return the names of the folders on the way to an object, and of its file.

    Raises:
        InvalidNameError: It is no key.
    """
    parts = key.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in key:
        raise InvalidNameError(f"{key!r} is not a key of a lake")
    return parts


class DurableNames:
    """Folders of a lake whose names this process has made durable, each once.

    One that exists may not be: its creator may be about to see to it, or was killed before.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], bool] = {}

    def make(self, parts: Sequence[str], parent: int) -> None:
        """Make a folder that was missing, durable in its parent."""
        _make_folder(parent, parts[-1])
        self._known[tuple(parts)] = True

    def ensure(self, parts: Sequence[str], parent: int) -> None:
        """See to the name of a folder that is there.

        Raises:
            OSError: The disk failed to take it, now or before: a second try proves nothing.
        """
        name = tuple(parts)
        if name not in self._known:
            try:
                sync(parent)
            except PermissionError:
                pass  # who may not read it makes no folder in it that they rely on
            except OSError:
                self._known[name] = False
                raise
            self._known[name] = True
        if not self._known[name]:
            raise OSError(errno.EIO, "an earlier write to the disk failed")

    def ensure_root(self, handle: int) -> None:
        """See to the name of the lake's own folder, wherever it lies."""
        if not self._known.get(()):
            with _above(handle) as parent:
                self.ensure((), parent)


class LooseNames(DurableNames):
    """Makes folders that somebody else makes durable, before anything relies on them."""

    def make(self, parts: Sequence[str], parent: int) -> None:
        """Make a folder that was missing."""
        with suppress(FileExistsError):
            os.mkdir(parts[-1], dir_fd=parent)


@contextmanager
def folder(
    root: Path, parts: Sequence[str], *, make: DurableNames | None = None, durable: bool = False
) -> Iterator[int]:
    """Open a folder below a lake's own, by whose descriptor to name what lies in it.

    Args:
        root: The lake's own folder.
        parts: The names of the folders on the way.
        make: Makes the ones that are missing, each durable in its own parent; None to make none.
        durable: Whether those that are there already are to be durable as well.

    Raises:
        DamagedError: One is a symbolic link.
        OSError: One is missing, or cannot be entered.
    """
    handle = _opened(root, parts, make, make if durable else None)
    try:
        yield handle
    finally:
        os.close(handle)


def open_file(root: Path, parts: Sequence[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file of a lake.

    Args:
        root: The lake's own folder.
        parts: The names of the folders on the way, and its own.
        flags: As for ``os.open``.

    Raises:
        DamagedError: It, or a folder on the way, is a symbolic link; or it is a pipe, a socket
            or a device.
        OSError: It is missing, a folder, or cannot be opened.
    """
    with folder(root, parts[:-1]) as inner:
        return open_in(inner, parts[-1], f"{root}/{'/'.join(parts)}", flags)


def open_in(handle: int, name: str, where: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file in a folder that is open.

    Args:
        handle: The folder's descriptor.
        name: The file's name in it.
        where: Its path, for messages.
        flags: As for ``os.open``.

    Raises:
        DamagedError: It is a symbolic link, a pipe, a socket or a device.
        OSError: It is missing, a folder, or cannot be opened.
    """
    try:
        # Not to wait: a pipe that nobody writes to would never be open.
        opened = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            refuse_odd(os.stat(name, dir_fd=handle, follow_symlinks=False), where)
        raise
    try:
        about = os.fstat(opened)
        if is_odd(about):
            refuse_odd(about, where)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except BaseException:
        os.close(opened)
        raise
    return opened


def link(root: Path, source: Sequence[str], parts: Sequence[str], names: DurableNames) -> None:
    """Give a file another name, durable, in folders that are made where they are missing.

    Args:
        root: The lake's own folder.
        source: The names of the folders on the way to the file, and its own.
        parts: Likewise for the other name.
        names: Makes folders.

    Raises:
        OSError: There is no such file, the name is taken, or the disk refused.
    """
    with (
        folder(root, source[:-1]) as there,
        folder(root, parts[:-1], make=names, durable=True) as target,
    ):
        os.link(source[-1], parts[-1], src_dir_fd=there, dst_dir_fd=target, follow_symlinks=False)
        sync(target)


def refuse_odd(about: os.stat_result, path: Path | str) -> None:
    """Refuse what is neither a regular file nor a folder.

    Raises:
        DamagedError: It is something else.
    """
    if stat.S_ISLNK(about.st_mode):
        raise DamagedError(f"{path} {LINK}")
    if is_odd(about):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        raise DamagedError(f"{path} is {kind} where a file should be: remove it")


def is_odd(about: os.stat_result) -> bool:
    """Tell whether it is neither a regular file nor a folder."""
    return not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode))


def read_all(handle: int, size: int) -> bytes:
    """Read from a descriptor to the end; one call gives at most 2 GiB, and may give less.

    Args:
        handle: The descriptor.
        size: About how many bytes there are.
    """
    pieces: list[bytes] = []
    while piece := os.read(handle, size + 1):
        pieces.append(piece)
        size = max(size - len(piece), _PIECE)
    return b"".join(pieces)


def write_all(handle: int, data: bytes) -> None:
    """Write to a descriptor; one call takes at most 2 GiB, and may take less."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync(handle: int) -> None:
    """Make the names in a folder durable."""
    with readable(handle) as opened:
        os.fsync(opened)


@contextmanager
def readable(handle: int) -> Iterator[int]:
    """Open a folder for listing, by a descriptor that only leads into it."""
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
    try:
        yield opened
    finally:
        os.close(opened)


def _opened(
    root: Path, parts: Sequence[str], make: DurableNames | None, seeing_to: DurableNames | None
) -> int:
    handle = _open_root(root, make)
    try:
        if seeing_to is not None:
            seeing_to.ensure_root(handle)
        for number, part in enumerate(parts):
            try:
                inner = _step(handle, part, root, parts[:number])
            except FileNotFoundError:
                if make is None:
                    raise
                make.make(parts[: number + 1], handle)
                inner = _step(handle, part, root, parts[:number])
            try:
                if seeing_to is not None:
                    seeing_to.ensure(parts[: number + 1], handle)
            finally:
                os.close(handle)
                handle = inner
    except BaseException:
        os.close(handle)
        raise
    return handle


def _open_root(root: Path, make: DurableNames | None) -> int:
    try:
        return os.open(root, _ENTER)
    except FileNotFoundError:
        if make is None:
            raise
        _make_root(root)
        return os.open(root, _ENTER)


def _step(handle: int, part: str, root: Path, before: Sequence[str]) -> int:
    try:
        return os.open(part, _STEP, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            about = os.stat(part, dir_fd=handle, follow_symlinks=False)
            refuse_odd(about, root.joinpath(*before, part))
        raise


def _make_folder(parent: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    try:
        sync(parent)  # another's too: they may be killed before they come to it
    except BaseException:
        # Left there it would look durable to the next process.
        with suppress(OSError):
            os.rmdir(name, dir_fd=parent)
        raise


def _make_root(root: Path) -> None:
    """Make the lake's own folder, and those above it; what links there are, are the user's."""
    missing: list[Path] = []
    while not root.is_dir():
        missing.append(root)
        root = root.parent
    # The one that is there, too: its creator may have been killed right after.
    existing = os.open(root, _ENTER)
    try:
        with suppress(PermissionError), _above(existing) as parent:
            sync(parent)
    finally:
        os.close(existing)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        parent = os.open(path.parent, _ENTER)
        try:
            sync(parent)
        finally:
            os.close(parent)


@contextmanager
def _above(handle: int) -> Iterator[int]:
    """Open the folder that a folder's name is in; the folder itself where a disk begins."""
    parent = os.open("..", _ENTER, dir_fd=handle)
    try:
        same_disk = os.fstat(parent).st_dev == os.fstat(handle).st_dev
        yield parent if same_disk else handle
    finally:
        os.close(parent)
