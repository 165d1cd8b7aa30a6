"""Java's classes, loaded and checked once and kept in a file, so that the next JVM maps them.

Most of what a small job costs is Java reading Spark's classes from jars. A class data archive
takes that away; each runtime has its own format, so it is made on the machine, by a process of
its own after the first job (``singerlake/ops/training.py``), and is a cache: one that is missing,
refused by Java or damaged costs time and nothing else.

It is kept because it pays: a query of 1,000 rows takes 2.5 s with it and 5.2 s without, and a
session that freezes, queries and reverts on Spark 4.9 s and 8.0 s (bench/RESULTS.md, ``small``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SETTING = "SINGERLAKE_CACHE"
"""The environment's name for the cache's folder; ``off`` there means that none is kept."""
KEPT = 3
"""Archives, the last used ones: a machine may have several Javas and environments in turn."""
NEEDED = 1 << 30
"""Bytes of disk that must be free before an archive of 0.2 GiB is made."""
RETRY_SECONDS = 3600.0
"""A training that has not finished for so long was killed; another may begin."""
TURN_TAKEN = "turn-taken"
"""The training's argument for: the turn is taken, do not take it again."""
REFUSED_SECONDS = 30 * 86400.0
"""After a failure nobody tries again for so long: a full disk may have been emptied by then."""
_BUSY = "training"
_NONE = ".none"
_JARS = ".jars"
_SUMS = "sha256"


@dataclass(frozen=True)
class Archive:
    """The place of the archive of one Java and one class path.

    Attributes:
        java: The ``java`` program it is for.
    """

    path: Path
    java: Path

    @property
    def jars(self) -> Path:
        """A folder of jars that belong before all others on the class path."""
        return self.path.with_suffix(_JARS)

    @property
    def refused(self) -> Path:
        """A file that is there where the archive could not be made, so that nobody tries again."""
        return self.path.with_suffix(_NONE)

    def size(self) -> int | None:
        """Return its size in bytes; None where there is none that can be trusted."""
        try:
            status = self.path.stat()
            folder = self.path.parent.stat()
        except OSError:
            return None
        # What is in it is run. Nobody else may have written it.
        if not _own(status) or not _own(folder) or _kept_jars(self) is None:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def is_refused(self) -> bool:
        """Tell whether it could not be made of late; after a month another Java may do better."""
        try:
            return time.time() - self.refused.stat().st_mtime < REFUSED_SECONDS
        except OSError:
            return False


def archive_for(java: Path, class_path: Sequence[str]) -> Archive | None:
    """Find where the archive of a Java and a class path belongs, by all that it depends on.

    Args:
        java: The ``java`` program.
        class_path: Jars. Java refuses an archive once one of them has changed.

    Returns:
        None where no cache is kept.
    """
    folder = _folder()
    if folder is None or os.pathsep in str(folder):  # which no class path can spell
        return None
    home = java.resolve().parent.parent
    parts = [platform.machine(), str(home)]
    try:
        parts += [_seen(home / "lib" / "modules"), *(_seen(Path(jar)) for jar in class_path)]
    except OSError:
        return None
    key = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return Archive(folder / f"{key[:16]}.jsa", java)


def options(archive: Archive) -> list[str]:
    """Return the options by which Java uses the archive; none where it is not there yet."""
    if archive.size() is None:
        return []
    with contextlib.suppress(OSError):
        os.utime(archive.path)  # the last used stays longest
    # The checksums are looked at (0.08 s): without, Java runs whatever a damaged file says.
    check = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+VerifySharedSpaces"]
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive.path}", *check]


def jars(archive: Archive) -> list[str]:
    """Return the jars that the archive goes with; none where they are not those that were made."""
    return _kept_jars(archive) or []


def _kept_jars(archive: Archive) -> list[str] | None:
    """The jars that the archive was made with, or None: a damaged one would be run.

    Without them Java would refuse the archive each time, and none would be made in its place.
    """
    try:
        listed = (archive.jars / _SUMS).read_text(encoding="utf-8").splitlines()
        found = [archive.jars / line.partition("  ")[2] for line in listed]
        if not all(_own(path.stat()) for path in [archive.jars, archive.jars / _SUMS, *found]):
            return None
        whole = [_sum(path) for path in found] == listed
    except (OSError, ValueError):
        return None
    return [*map(str, found)] if whole else None


def note_jars(archive: Archive, made: Iterable[str]) -> None:
    """Note which jars an archive is made with, once they are there."""
    lines = "".join(f"{_sum(Path(jar))}\n" for jar in made)
    new = archive.jars / f"{_SUMS}.new"
    new.write_text(lines, encoding="utf-8")
    new.chmod(0o600)
    new.replace(archive.jars / _SUMS)


def _sum(jar: Path) -> str:
    return f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}"


def discard(archive: Archive) -> None:
    """Delete an archive that did harm."""
    with contextlib.suppress(OSError):
        archive.path.unlink()
    shutil.rmtree(archive.jars, ignore_errors=True)


def train_later(archive: Archive) -> None:
    """Have the archive made by a process that outlives this one, at the lowest priority.

    Does nothing where it is there, is being made, cannot be made, or would be made in vain:
    machines that build and test (they set ``CI``) are thrown away after the job.
    """
    if archive.size() is not None or os.environ.get("CI"):
        return
    with contextlib.suppress(OSError):
        archive.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In a folder of others' it would never be trusted, and be made again and again.
        if archive.is_refused() or not _own(archive.path.parent.stat()):
            return
        if shutil.disk_usage(archive.path.parent).free < NEEDED or not take_turn(archive):
            return
        process = subprocess.Popen(
            [sys.executable, "-m", "singerlake.ops.training", TURN_TAKEN],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",  # not one that the user may want to unmount, nor one to import from
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
            start_new_session=True,
        )
        # Nobody waits for it, and Python need not warn that it still runs.
        process.returncode = 0


def is_training(archive: Archive) -> bool:
    """Tell whether an archive is being made."""
    try:
        return time.time() - (archive.path.parent / _BUSY).stat().st_mtime < RETRY_SECONDS
    except OSError:
        return False


def take_turn(archive: Archive) -> bool:
    """Take the turn, if nobody else makes an archive now: it takes a core and half a gigabyte."""
    busy = archive.path.parent / _BUSY
    if busy.exists() and not is_training(archive):
        busy.unlink()
    try:
        busy.touch(0o600, exist_ok=False)
    except FileExistsError:
        return False
    return True


def end_turn(archive: Archive) -> None:
    """Let the next one make an archive, and delete those that nobody used of late."""
    folder = archive.path.parent
    with contextlib.suppress(OSError):
        for old in _by_use(folder)[KEPT:]:
            old.unlink()
            shutil.rmtree(old.with_suffix(_JARS), ignore_errors=True)
    (folder / _BUSY).unlink(missing_ok=True)


def _by_use(folder: Path) -> list[Path]:
    kept = [path for path in folder.iterdir() if path.suffix in {".jsa", _NONE}]
    return sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)


def _folder() -> Path | None:
    """The cache's folder for Java; None where it is switched off, or there is no home."""
    named = os.environ.get(SETTING)
    if named is not None:
        off = named.strip().lower() in {"", "off"}
        return None if off else Path(named).expanduser().absolute() / "java"
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The specification says of a relative path that it must be ignored.
        cache = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        return None
    return cache / "singerlake" / "java"


def _own(status: os.stat_result) -> bool:
    """Tell whether a file is this user's, and nobody else may write it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _seen(path: Path) -> str:
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _import_path() -> Iterator[str]:
    """Return where the new process finds this package, even in a checkout not installed."""
    yield str(Path(__file__).parents[4])
    if more := os.environ.get("PYTHONPATH"):
        yield more
