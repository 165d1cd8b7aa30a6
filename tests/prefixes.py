"""What lies in a lake's folder before each write of an operation: what kill -9 leaves there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Tree = dict[str, bytes | None]
"""The content of each file by its path, and None for each folder."""
_WRITES = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir"}


class _Watch:
    """Sees each write before it happens. Python cannot take off such a hook again."""

    def __init__(self) -> None:
        self.root: Path | None = None
        self.trees: list[Tree] = []
        sys.addaudithook(self._hook)

    def look(self, root: Path) -> None:
        self.root = None
        tree = read_tree(root)
        self.root = root
        if tree not in self.trees:
            self.trees.append(tree)

    def _hook(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _WRITES and self.root is not None:
            self.look(self.root)


_watches: list[_Watch] = []


def read_tree(root: Path) -> Tree:
    """Return all that lies below a folder."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        found[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return found


def write_tree(root: Path, tree: Tree, age: float = 0) -> None:
    """Make a folder of what :func:`read_tree` has returned.

    Args:
        root: The folder.
        tree: What is to be in it.
        age: Seconds since its files were written.
    """
    root.mkdir(parents=True)
    for name, data in tree.items():
        if data is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(data)
            os.utime(root / name, (time.time() - age,) * 2)


def prefixes(root: Path, operation: Callable[[], object]) -> list[Tree]:
    """Run an operation on a lake; return what its folder held before each write, and at the end."""
    if not _watches:
        _watches.append(_Watch())
    watch = _watches[0]
    watch.root, watch.trees = root, []
    try:
        operation()
        watch.look(root)
    finally:
        watch.root = None
    return watch.trees


def shapes(trees: list[Tree]) -> Iterator[Tree]:
    """Yield trees that differ in more than what is staged and the content of locks."""
    seen = set()
    for tree in trees:
        shape = tuple(
            (name, None if name.endswith(".lock") else data)
            for name, data in tree.items()
            if not name.startswith(".staging/")
        )
        if shape not in seen:
            seen.add(shape)
            yield tree
