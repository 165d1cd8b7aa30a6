"""Copies of signed jars without their signatures.

Java keeps no class of a signed jar in an archive of classes, and looks at the signature of each
that it loads from there. Spark's compiler of queries, Janino, comes in such jars: 330 classes for
the smallest query.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

_MANIFEST = "META-INF/MANIFEST.MF"
_SIGNATURE = re.compile(r"META-INF/[^/]+\.(?:SF|DSA|RSA|EC)", re.IGNORECASE)


def copies(jars: Iterable[str], folder: Path) -> list[str]:
    """Write a copy of each signed jar into a folder, which is there.

    Returns:
        The copies, in the order of the jars.
    """
    return [
        str(_copied(Path(jar), folder / Path(jar).name)) for jar in jars if _is_signed(Path(jar))
    ]


def _is_signed(jar: Path) -> bool:
    with zipfile.ZipFile(jar) as content:
        return any(map(_SIGNATURE.fullmatch, content.namelist()))


def _copied(jar: Path, to: Path) -> Path:
    new = to.with_suffix(".new")
    with zipfile.ZipFile(jar) as content, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as copy:
        for item in content.infolist():
            if _SIGNATURE.fullmatch(item.filename):
                continue
            data = content.read(item)
            if item.filename == _MANIFEST:
                # What follows the first empty line are digests: by these Java takes it for signed.
                data = re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0] + b"\r\n\r\n"
            copy.writestr(item, data)
    new.chmod(0o600)
    with new.open("rb") as file:
        os.fsync(file.fileno())
    # Java tells by its time and size whether a jar is the one that an archive was made of.
    seen = jar.stat()
    os.utime(new, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    return new.replace(to)
