"""Facts about a folder before a lake lies in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def hard_links(folder: Path) -> str:
    """Explain why a folder's file system cannot keep a lake; empty if hard links work.

    Tries it, in a folder of its own that is removed again: what file systems say of themselves
    is not to be relied on.

    Args:
        folder: One that is there and can be written to.
    """
    try:
        trial = Path(tempfile.mkdtemp(prefix=".singerlake-doctor-", dir=folder))
    except OSError as error:
        return f"nothing can be written there ({error.strerror})"
    try:
        one, other = trial / "one", trial / "other"
        one.write_bytes(b"1")
        os.link(one, other)
        if not one.samefile(other):
            return "a hard link becomes a copy there"
        try:
            os.link(one, other)
        except FileExistsError:
            return ""
        return "a hard link replaces the file of its name there"
    except OSError as error:
        return f"hard links do not work there ({error.strerror})"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
