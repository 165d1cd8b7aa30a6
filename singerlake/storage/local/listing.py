"""The listing of a lake's folder: every file below one of its folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from singerlake.storage.base import StoredCopy
from singerlake.storage.local import files


def copies(root: Path) -> Iterator[StoredCopy]:
    """Yield every regular file below a folder, and as unreadable every symbolic link.

    Raises:
        OSError: A folder cannot be read.
    """
    for key, about in walk(root, [], links=True):
        link = stat.S_ISLNK(about.st_mode)
        why = f"it {files.LINK}" if link else ""
        yield StoredCopy(key, about.st_size, unreadable=why)


def walk(
    root: Path, parts: Sequence[str], *, links: bool = False
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the key of every regular file below a folder; nothing where there is no such folder.

    Pipes and the like are skipped: they hold nothing, and asking for one is an error.

    Args:
        links: Whether to yield symbolic links, too, rather than to refuse them.

    Raises:
        DamagedError: There is a symbolic link: what it points to may be missed.
        OSError: A folder cannot be read.
    """
    try:
        with files.folder(root, parts) as handle:
            for inner, folders, names, descriptor in os.fwalk(
                ".", dir_fd=handle, onerror=_raise_unless_gone
            ):
                # Texts, not paths: of thousands of files these would take most of the time.
                within = "".join(f"{one}/" for one in (*parts, *inner.split("/")[1:]))
                for name in (*folders, *names):
                    try:
                        about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # deleted while we looked
                    if stat.S_ISLNK(about.st_mode) and not links:
                        files.refuse_odd(about, root / f"{within}{name}")
                    if stat.S_ISREG(about.st_mode) or (links and stat.S_ISLNK(about.st_mode)):
                        yield f"{within}{name}", about
    except FileNotFoundError:
        return


def holds_files(parent: int, name: str) -> bool:
    """Return whether a folder has a file at any depth.

    One without is no folder of the lake, as on an object store: a writer that was refused, or
    killed, leaves such behind. A link, and what cannot be read, counts as one that has.

    Args:
        parent: Descriptor of the folder that it lies in.
    """
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        with os.scandir(handle) as entries:
            inner = []
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    return True
                inner.append(entry.name)
        return any(holds_files(handle, one) for one in inner)
    finally:
        os.close(handle)


def _raise_unless_gone(error: OSError) -> None:
    # os.fwalk leaves out what it may not read: files would seem to be gone.
    if not isinstance(error, FileNotFoundError):
        raise error
