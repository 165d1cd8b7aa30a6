"""The paths of very many data files, checked together: one by one they take five times as long."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.format.names import SUFFIX, is_data_path

_HEAD = len("NFSHXeX/o")
"""A schema's folder, and the first letter of a file's name: a table has few of them."""
_SOME = 10_000
"""Paths that are put together at once: a megabyte."""


def are_data_paths(paths: Sequence[str]) -> bool:
    """Tell whether all of some paths are of data files, as ``names.is_data_path`` tells of one.

    Where it says no, they may still be: of a name with a line's end in it it cannot tell.
    """
    return all(_are(paths[at : at + _SOME]) for at in range(0, len(paths), _SOME))


def _are(paths: Sequence[str]) -> bool:
    together = "\n".join((*paths, ""))
    heads = {path[:_HEAD] for path in paths}
    return (
        all(is_data_path(head + SUFFIX) for head in heads)
        and together.count("/") == together.count("\n") == len(paths)  # those in the heads
        and "\\" not in together
        and together.count(f"{SUFFIX}\n") == len(paths)
    )
