"""YAML that people wrote, read strictly: no key twice, no alias, and every value has its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from singerlake import small_files
from singerlake.errors import UsageError

Place = tuple[str | int, ...]
"""Where a value is in a document: the keys and indexes on the way to it."""


@dataclass(frozen=True)
class Document:
    """What a file says.

    Attributes:
        value: Plain values; None for an empty file.
        node: The same as the parser has it, where each value knows its line.
    """

    value: Any
    node: yaml.Node | None

    def lines(self) -> dict[Place, int]:
        """Tell on which line each value begins, counted from 1; a member's is that of its key."""
        return dict(_lines(self.node, ())) if self.node is not None else {}


def read(path: Path, most: int, these: str) -> Document:
    """Read a file of YAML or JSON.

    Args:
        path: The file.
        most: How many bytes it may have.
        these: What larger files cannot be, for the message: ``annotations``.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        text = small_files.read(path, these, most).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text") from error
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{path} cannot be read as YAML: {error}") from error


def parse(text: str) -> Document:
    """Read a text of YAML or JSON.

    Raises:
        UsageError: It is neither; the message names line and column.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        value = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(_one_line(error)) from error
    return Document(value, node)


class _Loader(yaml.SafeLoader):
    """YAML's plain values, and no key twice: the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, its keys looked at."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                mark = node.value[index][0].start_mark
                raise yaml.MarkedYAMLError(problem=f"{key!r} occurs twice", problem_mark=mark)
        return super().construct_mapping(node, deep=deep)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node; not one that stands for another, which a few lines can make millions of."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
        return super().compose_node(parent, index)


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    problem = str(getattr(error, "problem", None) or error or type(error).__name__)
    return where + " ".join(problem.split())


def _lines(node: yaml.Node, place: Place) -> Iterator[tuple[Place, int]]:
    if not place:
        yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inside = (*place, str(key.value))
            yield inside, key.start_mark.line + 1
            yield from _lines(value, inside)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inside = (*place, index)
            yield inside, value.start_mark.line + 1
            yield from _lines(value, inside)
