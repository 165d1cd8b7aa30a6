"""A file that a person names to be written: whole or not at all, and never over another unasked."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake.errors import StoreError, UsageError


class NewFile:
    """A file to be written.

    Args:
        force: Whether it may replace one that is there; None if no option allows that.

    Raises:
        UsageError: One is there, or a folder, or there is no folder for it.
    """

    def __init__(self, path: Path, *, force: bool | None) -> None:
        self.path = path
        self._force = force
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}: create it first")
        # A pipe, or /dev/null, is not replaced by what is written to it.
        self._special = path.exists() and not path.is_file()
        if path.exists() and not force and not self._special:
            raise UsageError(self._taken())

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Yield the path to write to; what was written gets its own name once it is whole.

        Raises:
            StoreError: It cannot be written.
            UsageError: Another process has made a file of this name in the meantime.
        """
        path = self.path
        beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
        try:
            yield path if self._special else beside
            if self._force and not self._special:
                beside.replace(path)
            elif not self._special:
                _rename_to_new(beside, path)
        except FileExistsError as error:
            raise UsageError(self._taken()) from error
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            beside.unlink(missing_ok=True)

    def _taken(self) -> str:
        more = "" if self._force is None else ", or replace it with --force"
        return f"{self.path} already exists: name another{more}"


def _rename_to_new(source: Path, target: Path) -> None:
    """Rename a file without replacing another; atomic if hard links are supported."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(target) from None
        source.replace(target)
