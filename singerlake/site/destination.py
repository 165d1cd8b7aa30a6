"""Where a site goes: a folder, or a bucket. What is there stays as it is until all is made."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from singerlake.errors import StoreError, UsageError
from singerlake.site import paths
from singerlake.site.render import Rendered
from singerlake.storage.base import KeyMissingError
from singerlake.storage.opening import folder, is_remote, open_store
from singerlake.storage.options import StoreOptions

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".md": "text/markdown; charset=utf-8",
    ".json": "application/json",
}
_BUILDING = re.compile(r"\.building-[0-9a-f]{8}")
UPLOADS = 8
"""Files that go up side by side: most of it is waiting."""


def is_page(path: str) -> bool:
    """Whether a path can be one of a site's files: a state that says otherwise was forged."""
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not path.startswith("/")
        and not {"..", "."} & set(parts)
        and "\\" not in path
        and "\0" not in path
        and PurePosixPath(path).suffix in MEDIA_TYPES
    )


class Destination(ABC):
    """Takes a site's files, and puts them in their places once all are there.

    To be entered; leaving it early leaves what was there as it was.
    """

    def __init__(self, building: Path) -> None:
        self._building = building
        self._folders: set[Path] = set()
        """Those that are made: to ask the disk anew for each file would take longer."""

    def way_to(self, there: Path | None) -> str:
        """The way to a folder of this machine, as a relative URI that ends in ``/``.

        Empty where there is none: a page that a web server shows leads to no disk.

        Args:
            there: The folder; None where it is on no disk.
        """
        del there
        return ""

    @abstractmethod
    def state(self) -> bytes | None:
        """What the site that is there says of itself; None where there is none.

        Raises:
            UsageError: Something else is there.
        """

    @abstractmethod
    def finish(
        self, made: Iterable[str], gone: Iterable[str], *, interim: bytes, state: bytes
    ) -> None:
        """Put the files in their places, the way in last, and take away those that are gone.

        Args:
            made: The files that were put.
            gone: Files of an earlier build that the site has no more.
            interim: The state while this goes on: it knows every file, and trusts none of these,
                so that the next run can finish what broke off.
            state: The state once all is done.
        """

    @abstractmethod
    def has(self, path: str) -> bool:
        """Whether a file of an earlier build is still there."""

    def put(self, file: Rendered) -> None:
        """Take a file."""
        target = self._building / file.path
        try:
            if target.parent not in self._folders:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._folders.add(target.parent)
            target.write_bytes(file.data)
        except OSError as error:
            raise StoreError(f"cannot write {target}: {error.strerror}") from error

    def __enter__(self) -> Destination:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._building, ignore_errors=True)


def open_destination(to: str, options: StoreOptions | None = None) -> Destination:
    """The destination that a person names.

    Raises:
        UsageError: It cannot be one.
    """
    if is_remote(to):
        return _Bucket(to, options)
    return _Folder(folder(to, "a site"))


class _Folder(Destination):
    """A folder on this machine."""

    def __init__(self, to: Path) -> None:
        # Through a link, or a way with "..", the files would be made elsewhere than they go.
        self._to = Path(os.path.realpath(to))
        token = f".building-{secrets.token_hex(4)}"
        # In a folder that is there: it may be a mount, and its parent may be another's.
        inside = os.path.isdir(self._to)  # noqa: PTH112  # False where it may not be looked at
        beside = self._to.parent / f".{self._to.name}{token}"
        super().__init__(self._to / token if inside else beside)
        if self._to == self._to.parent:
            raise UsageError(f"{to} is not a valid place for a site: name a folder")
        self._lock: int | None = None

    def way_to(self, there: Path | None) -> str:
        if there is None:
            return ""
        return quote(os.path.relpath(os.path.realpath(there), self._to)) + "/"

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._lock is not None:
            os.close(self._lock)

    def _take_turn(self) -> None:
        """Lock the folder against other builds, until this one ends or dies.

        Raises:
            UsageError: Another is going on.
        """
        if self._lock is not None:
            return
        self._lock = os.open(self._to, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is writing the site in {self._to}: wait until it is done"
            ) from None

    def state(self) -> bytes | None:
        try:
            if not self._to.exists():
                return None
            if not self._to.is_dir():
                raise UsageError(f"{self._to} is a file: name a folder for the site with --out")
            self._take_turn()
            file = self._to / paths.STATE
            left = [one for one in self._to.iterdir() if _is_building(one)]
            first = next((one for one in self._to.iterdir() if one not in left), None)
            state = file.read_bytes() if file.is_file() else None
        except OSError as error:
            raise StoreError(f"cannot read {self._to}: {error.strerror}") from error
        if first is not None and state is None:
            raise UsageError(
                f"{self._to} contains something else ({first.name}): name an empty folder, or one "
                "that a site was written to, with --out"
            )
        for killed in left:
            shutil.rmtree(killed, ignore_errors=True)
        return state

    def has(self, path: str) -> bool:
        return (self._to / path).is_file()

    def finish(
        self, made: Iterable[str], gone: Iterable[str], *, interim: bytes, state: bytes
    ) -> None:
        self.put(Rendered(paths.STATE, state))
        try:
            if not self._to.exists():
                self._building.rename(self._to)  # a site where none was appears at once
                return
            self.put(Rendered(paths.STATE, interim))
            (self._building / paths.STATE).replace(self._to / paths.STATE)
            self.put(Rendered(paths.STATE, state))
            for path in made:
                target = self._to / path
                target.parent.mkdir(parents=True, exist_ok=True)
                (self._building / path).replace(target)
            for path in gone:
                (self._to / path).unlink(missing_ok=True)
                self._prune((self._to / path).parent)
            (self._building / paths.STATE).replace(self._to / paths.STATE)
        except OSError as error:
            raise StoreError(
                f"cannot write {error.filename or self._to}: {error.strerror}; run it again"
            ) from error

    def _prune(self, folder: Path) -> None:
        """Take away folders that nothing is in any more."""
        while folder != self._to and self._to in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _is_building(path: Path) -> bool:
    """Whether a folder is what a build that was killed left behind."""
    return bool(_BUILDING.fullmatch(path.name)) and path.is_dir() and not path.is_symlink()


class _Bucket(Destination):
    """A prefix of a bucket, for a web server to serve."""

    def __init__(self, to: str, options: StoreOptions | None) -> None:
        self._to = to.rstrip("/")
        self._store = open_store(self._to, options)
        super().__init__(Path(tempfile.mkdtemp(prefix="singerlake-site-")))

    def state(self) -> bytes | None:
        try:
            return self._store.get(paths.STATE).data
        except KeyMissingError:
            pass
        first = self._store.first_key()
        if first is not None:
            raise UsageError(
                f"{self._to} contains something else ({first}): name an empty prefix, or one that "
                "a site was written to, with --out"
            )
        return None

    def has(self, path: str) -> bool:
        return bool(path)  # one that was taken away by hand comes back with --rebuild

    def finish(
        self, made: Iterable[str], gone: Iterable[str], *, interim: bytes, state: bytes
    ) -> None:
        self._store.write_page(paths.STATE, interim, MEDIA_TYPES[".json"])
        files = list(made)
        with ThreadPoolExecutor(UPLOADS, "upload") as pool:
            uploads = [pool.submit(self._upload, path) for path in files[:-1]]
            try:
                for done in uploads:
                    done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # the rest would fail as slowly
                raise
        for path in files[-1:]:
            self._upload(path)
        for path in gone:
            self._store.delete(path)
        self._store.write_page(paths.STATE, state, MEDIA_TYPES[".json"])

    def _upload(self, path: str) -> None:
        data = (self._building / path).read_bytes()
        self._store.write_page(path, data, MEDIA_TYPES[PurePosixPath(path).suffix])
