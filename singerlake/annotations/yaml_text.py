"""Annotations as YAML: read from a file, written out. A run of the target needs none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from singerlake.annotations.changes import Change
from singerlake.annotations.document import changes
from singerlake.annotations.subjects import LAKE
from singerlake.errors import UsageError

MAX_BYTES = 64 * 1024 * 1024


class _Loader(yaml.SafeLoader):
    """YAML's plain values, and no key twice: the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, its keys looked at."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                mark = node.value[index][0].start_mark
                raise yaml.MarkedYAMLError(problem=f"{key!r} is there twice", problem_mark=mark)
        return super().construct_mapping(node, deep=deep)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node; not one that stands for another, which a few lines can make millions of."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not taken", problem_mark=mark)
        return super().compose_node(parent, index)


def read(path: Path) -> list[Change]:
    """The changes that a file of YAML or JSON asks for.

    Raises:
        UsageError: It cannot be read, or says what cannot be said.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} has more than {MAX_BYTES:,} bytes: these are no annotations")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text") from error
    try:
        document = yaml.load(text, _Loader)  # noqa: S506  # a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as YAML: {_one_line(error)}") from error
    try:
        return changes(document if document is not None else {}, LAKE)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    problem = str(getattr(error, "problem", None) or error or type(error).__name__)
    return where + " ".join(problem.split())


def to_yaml(document: dict[str, Any]) -> str:
    """A document as YAML."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=88)
    return text
