"""Annotations as YAML: read from a file, written out. A run of the target needs none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from singerlake import strict_yaml
from singerlake.annotations.changes import Change
from singerlake.annotations.document import changes
from singerlake.annotations.subjects import LAKE
from singerlake.errors import UsageError

MAX_BYTES = 64 * 1024 * 1024


def read(path: Path) -> list[Change]:
    """The changes that a file of YAML or JSON asks for.

    Raises:
        UsageError: It cannot be read, or says what cannot be said.
    """
    document = strict_yaml.read(path, MAX_BYTES, "annotations").value
    try:
        return changes(document if document is not None else {}, LAKE)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def to_yaml(document: dict[str, Any]) -> str:
    """A document as YAML."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=88)
    return text
