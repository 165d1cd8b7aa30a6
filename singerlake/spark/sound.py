"""Whether a file on this machine's disks is as it was written, found out once.

A file is looked at again when its size, its times or its place on the disk are others than when it
was found sound; what changes none of these (a bit that a disk turned) is seen by the next process,
and by every ``verify``.
"""

from __future__ import annotations

from pathlib import Path

from blake3 import blake3

_Seen = tuple[int, int, int, int]
_sound: dict[tuple[Path, str], _Seen] = {}
_MOST = 100_000


def is_sound(path: Path, expected: str) -> bool:
    """Whether a file's bytes have a hash; False too where it cannot be read."""
    try:
        about = path.stat()
        seen = (about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
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
