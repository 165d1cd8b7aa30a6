"""Checks once whether a file on this machine's disks is as it was written.

A file is checked again when its size, its times or its inode are others than when it was sound;
what changes none of these (a bit that a disk turned) is seen by the next process, and by every
``verify``.
"""

from __future__ import annotations

from pathlib import Path

from blake3 import blake3

_Seen = tuple[int, int, int, int]
_sound: dict[tuple[Path, str], _Seen] = {}
_MOST = 100_000


def is_sound(path: Path, expected: str) -> bool:
    """Tell whether a file's bytes have a hash; False too where it cannot be read."""
    try:
        status = path.stat()
        seen = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        if _sound.get((path, expected)) == seen:
            return True
        hashed = blake3(max_threads=blake3.AUTO)
        hashed.update_mmap(path)
    except OSError:
        return False
    if hashed.hexdigest() != expected:
        return False
    if len(_sound) >= _MOST:
        _sound.clear()
    _sound[path, expected] = seen
    return True
