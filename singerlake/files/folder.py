"""The files of a folder, or those that a pattern names: found in order, read as they were found.

Nothing is left out in silence, and nothing is followed: links, pipes, devices and names that no
row can hold are one error, all together, before anything is stored.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from singerlake.errors import DamagedError, InputError
from singerlake.files.sources import pieces_of
from singerlake.storage.local import files

_ANY_DEPTH = "**"
_SHOWN = 5
_KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class FolderFile:
    """A file as it was found.

    Attributes:
        path: Its path from the folder, with ``/``.
        size: Its bytes.
        modified: When it was last changed, in nanoseconds since 1970.
    """

    path: str
    size: int
    modified: int

    @property
    def name(self) -> str:
        """Its path's last part."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Seen:
    """What a look at a folder shows.

    Attributes:
        files: How many files there are.
        bytes: How many bytes these have.
    """

    files: int
    bytes: int


class Folder:
    """A folder whose files are to be stored.

    Args:
        name: What people call it, or the pattern that names its files.
        base: What people call the folder that paths are told from.
        root: Where it is; it may be a link itself, for somebody chose it.
        pattern: The pattern's parts; None for all files, hidden ones too.
        lake: The lake's own folder, which is nobody's document.
    """

    def __init__(
        self,
        name: str,
        base: str,
        root: Path,
        pattern: Sequence[str] | None = None,
        lake: Path | None = None,
    ) -> None:
        self.name = name
        self.base = base
        self.root = root
        self._pattern = pattern
        self._lake = lake

    @classmethod
    def named(cls, text: str, lake: Path | None = None) -> Folder | None:
        """Return the folder that somebody names.

        Args:
            text: Its path; or a pattern below it, such as ``photos/**/*.jpg``, in which ``*`` and
                ``?`` stand for no dot at the beginning of a name.
            lake: The lake's own folder, where it is on a disk.

        Returns:
            None where it is neither.
        """
        path = Path(text).expanduser()
        if path.is_dir():
            return cls(text, str(path), path.absolute(), None, lake)
        if path.exists() or not glob.has_magic(text):
            return None
        parts = path.parts
        first = next(n for n, part in enumerate(parts) if glob.has_magic(part))
        root = Path(*parts[:first])
        if not root.is_dir():
            return None
        return cls(text, str(root), root.absolute(), parts[first:], lake)

    @property
    def pattern(self) -> bool:
        """Whether a pattern names the files, and not all are meant."""
        return self._pattern is not None

    def look(self) -> Seen:
        """Look whether all files can be taken.

        Raises:
            InputError: There is none, something is no plain file, or a folder cannot be read.
        """
        found = [0, 0]
        odd: list[str] = []
        for one in self._walk(()):
            if isinstance(one, str):
                odd.append(one)
            else:
                found[0] += 1
                found[1] += one.size
        if odd:
            more = f" and {len(odd) - _SHOWN:,} more" if len(odd) > _SHOWN else ""
            raise InputError(
                f"{self.name} contains files that cannot be stored: "
                f"{'; '.join(odd[:_SHOWN])}{more}. Nothing was changed: move them elsewhere, or "
                f"select files by a pattern, such as '{Path(self.base, _ANY_DEPTH, '*.pdf')}'"
            )
        if not found[0] and self.pattern and self._listed(()):
            raise InputError(
                f"no file matches {self.name}: nothing was changed. ** matches any number of "
                "folders, * and ? match no dot at the beginning of a name, and braces have no "
                "meaning"
            )
        if not found[0]:
            raise InputError(
                f"{self.name} has no files: nothing was changed. If its disk is not mounted, mount "
                "it; to delete all rows, use: singerlake delete"
            )
        return Seen(*found)

    def files(self) -> Iterator[FolderFile]:
        """Yield the files, folder by folder, in the order of their names.

        Raises:
            InputError: Something is no plain file any more, or a folder cannot be read.
        """
        for one in self._walk(()):
            if isinstance(one, str):
                raise InputError(f"{self.name} changed while it was read: {one}: run it again")
            yield one

    def pieces(self, file: FolderFile) -> Iterator[bytes]:
        """Read a file, piece by piece.

        Raises:
            InputError: It is gone, or is not what was found.
        """
        name = repr(file.path)
        try:
            handle = files.open_file(self.root, file.path.split("/"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                f"{name} was deleted after {self.name} was read: run it again"
            ) from error
        except DamagedError as error:
            raise InputError(f"{name} is not a regular file any more: run it again") from error
        except OSError as error:
            raise InputError(f"{name} cannot be opened: {error.strerror}") from error
        about = os.fstat(handle)
        if (about.st_size, about.st_mtime_ns) != (file.size, file.modified):
            os.close(handle)
            raise InputError(f"{name} changed while {self.name} was read: run it again")
        yield from pieces_of(handle, name)

    def _walk(self, parts: tuple[str, ...]) -> Iterator[FolderFile | str]:
        """Yield files, and of what cannot be taken, in words, why."""
        for name, about in self._listed(parts):
            own = (*parts, name)
            folder, meant = stat.S_ISDIR(about.st_mode), self._means(own)
            inner = self._may_lead_to(own)
            # A link may be one to a folder that the pattern goes on in.
            if not (meant and not folder) and not (inner and not stat.S_ISREG(about.st_mode)):
                continue
            path = "/".join(own)
            if why := _unfit(name, about) or self._is_lake(about):
                yield f"{_printable(path)} {why}"
            elif folder:
                yield from self._walk(own)
            else:
                yield FolderFile(path, about.st_size, about.st_mtime_ns)

    def _listed(self, parts: tuple[str, ...]) -> list[tuple[str, os.stat_result]]:
        where = _printable(str(self.root.joinpath(*parts)))
        try:
            with (
                files.folder(self.root, parts) as handle,
                files.readable(handle) as names,
                os.scandir(names) as entries,
            ):
                return sorted((one.name, one.stat(follow_symlinks=False)) for one in entries)
        except FileNotFoundError as error:
            raise InputError(f"{where} changed while it was read: run it again") from error
        except DamagedError as error:
            raise InputError(f"{where} is no longer a folder: run it again") from error
        except OSError as error:
            raise InputError(f"{where} cannot be read: {error.strerror}") from error

    def _is_lake(self, about: os.stat_result) -> str:
        try:
            same = self._lake is not None and os.path.samestat(about, self._lake.stat())
        except OSError:  # there is none yet
            return ""
        return "is the lake itself" if same else ""

    def _means(self, parts: Sequence[str]) -> bool:
        return self._pattern is None or _fits(parts, self._pattern)

    def _may_lead_to(self, parts: Sequence[str]) -> bool:
        return self._pattern is None or _begins(parts, self._pattern)


def _unfit(name: str, about: os.stat_result) -> str:
    """Say why something cannot be stored; empty where it can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if _CONTROL.search(name):
        return "has a name with control characters"
    if stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode):
        return ""
    return _KINDS.get(stat.S_IFMT(about.st_mode), "is not a regular file")


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path is one that a pattern names."""
    if not pattern or not parts:
        return not parts and all(one == _ANY_DEPTH for one in pattern)
    if pattern[0] == _ANY_DEPTH:
        return _fits(parts, pattern[1:]) or (_shown(parts[0]) and _fits(parts[1:], pattern))
    return _is_like(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _begins(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether paths below a folder may be some that a pattern names."""
    if not pattern or not parts:
        return bool(pattern)
    if pattern[0] == _ANY_DEPTH:
        return _begins(parts, pattern[1:]) or (_shown(parts[0]) and _begins(parts[1:], pattern))
    return _is_like(parts[0], pattern[0]) and _begins(parts[1:], pattern[1:])


def _is_like(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (_shown(name) or pattern.startswith("."))


def _shown(name: str) -> bool:
    return not name.startswith(".")


def _printable(path: str) -> str:
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return f"'{_CONTROL.sub(lambda match: repr(match[0])[1:-1], text)}'"
