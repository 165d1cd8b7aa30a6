"""The columns of a node of Spark's plans, read in few calls to Java however many there are."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

_ATTRIBUTE = re.compile(r"(?P<name>.*)#(?P<id>\d+)[^#]*", re.DOTALL)
"""How Spark shows a column: ``id#12L``."""


def items(seq: Any) -> list[Any]:
    """Return a Scala sequence as a list."""
    return [seq.apply(index) for index in range(seq.size())]


def computed(plan: Any) -> list[Any]:
    """Return a node's expressions, but for columns of what is below that it passes on as they are.

    A table may have thousands of those, and each costs several calls to Java.
    """
    expressions = plan.expressions()
    for child in items(plan.children()):
        expressions = expressions.diff(child.output())
    return items(expressions)


def attributes(seq: Any) -> list[tuple[int, str]]:
    """Return the ids and names that Spark gave columns, such as those of a node's output.

    Its texts of them are asked for at once: by itself each would take several calls to Java.
    """
    between = uuid4().hex
    texts = str(seq.mkString(between)).split(between)
    found = [_ATTRIBUTE.fullmatch(text) for text in texts if text]
    if None in found or len(found) != seq.size():
        return [(int(one.exprId().id()), str(one.name())) for one in items(seq)]
    return [(int(one["id"]), one["name"]) for one in found if one is not None]
