"""Verifying the files that rows name: that they are there, whole, and those that rows mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from singerlake.errors import SingerlakeError
from singerlake.format import content, file_paths
from singerlake.format.log import Block, FileList
from singerlake.format.names import TableName
from singerlake.log import file_lists
from singerlake.ops.verify.problems import BACKUP, Problem
from singerlake.storage.base import Listed, Store

_PIECE = 4 << 20
TASK_FILES = 5_000
TASK_BYTES = 1 << 30
"""What one task reads at most, unless one file has more."""

NamedFile = tuple[str, int]
"""A file's path within the table's folder, and its size as it lies there."""


def check_lists(
    store: Store, table: TableName, blocks: Iterable[Block], listing: Iterable[Listed]
) -> tuple[list[Problem], list[NamedFile]]:
    """Read all lists, and hold what they name against a listing.

    Args:
        blocks: The blocks whose lists to read.
        listing: The table's folder, listed after the log was read.

    Returns:
        Problems, and the files that are there.
    """
    problems: list[Problem] = []
    named: dict[str, list[int]] = {}
    for listed in file_lists.lists_of(blocks):
        try:
            for path, size in file_lists.read(store, table, listed).items():
                named.setdefault(path, []).append(size)
        except SingerlakeError as error:
            wanted = f"a list of {listed.files} files"
            problems.append(Problem("file", table.key(listed.path), wanted, str(error), BACKUP))
    start = len(table.folder)
    sizes = {item.key[start:]: item.size for item in listing}
    there: list[NamedFile] = []
    for path, said in named.items():
        actual = sizes.get(path)
        wrong = [size for size in said if size not in (0, actual)]  # 0: the row says none
        if actual is None or wrong:
            wanted = f"{(wrong or said)[0]} bytes"
            found = "nothing" if actual is None else f"{actual} bytes"
            problems.append(Problem("file", table.key(path), wanted, found, BACKUP))
        if actual is not None:
            there.append((path, actual))
    return problems, there


def tasks_of(files: Iterable[NamedFile]) -> list[list[NamedFile]]:
    """Split files into tasks of about the same work."""
    tasks: list[list[NamedFile]] = []
    size = 0
    for file in files:
        if not tasks or len(tasks[-1]) >= TASK_FILES or size + file[1] > TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file[1]
    return tasks


def check_file(store: Store, table: TableName, path: str) -> list[Problem]:
    """Hash a file again, and hold that against its name."""
    key, hashed = table.key(path), hashlib.sha256()
    try:
        for piece in store.pieces(key, _PIECE):
            hashed.update(piece)
        actual = f"the SHA-256 {hashed.hexdigest()}"
    except SingerlakeError as error:
        actual = str(error)
    wanted = f"the SHA-256 {file_paths.digest_in(path)}"
    return [] if actual == wanted else [Problem("file", key, wanted, actual, BACKUP)]


def check_named(
    store: Store, table: TableName, listed: FileList | None, text: bytes
) -> Iterator[tuple[str, str]]:
    """Hold a block's list against what its rows name; gives what was expected and what is."""
    place = content.place_in_line(text[: text.find(b"\n") + 1])
    named = content.named_in(text, place).keys() if place is not None else set()
    said = file_lists.read(store, table, listed).keys() if listed is not None else set()
    if missing := sorted(named - said):
        yield "a list of all files that its rows name", f"none that has {missing[0]}"
    if beyond := sorted(said - named):
        yield "a list of the files that its rows name", f"one that has {beyond[0]} as well"
