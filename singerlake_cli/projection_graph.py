"""The graph of projections: a tree for people, DOT and Mermaid for documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from singerlake.publish.graph import Graph, Reading
from singerlake.publish.projection import Projection, Target


@dataclass(frozen=True)
class Line:
    """A line of a tree.

    Attributes:
        branch: The characters that join it to the lines above.
        below: The characters in its place on further lines of the text.
    """

    branch: str
    text: str
    below: str


def tree(graph: Graph) -> Iterator[Line]:
    """Draw a tree below each table that no projection makes.

    A projection that reads several tables is there several times; its subtree only the first time.
    """
    shown: set[str] = set()
    made = {one.stage for one in graph.projections}
    read = [reading for one in graph.projections for reading in graph.readings[one.name]]
    tables = [reading.table for reading in read]
    for table in dict.fromkeys(table for table in tables if table not in made):
        yield Line("", str(table), "")
        readers = [
            (one, reading)
            for one in graph.projections
            for reading in graph.readings[one.name]
            if reading.table == table
        ]
        yield from _branches(graph, readers, "", shown)


def _branches(
    graph: Graph, readers: Sequence[tuple[Projection, Reading]], indent: str, shown: set[str]
) -> Iterator[Line]:
    for number, (one, reading) in enumerate(readers, 1):
        last = number == len(readers)
        below = f"{indent}{'   ' if last else '│  '}"
        again = one.name in shown
        inside = [
            (other, one_reading)
            for other in graph.projections
            for one_reading in graph.readings[other.name]
            if one_reading.maker == one.name
        ]
        text = _line(one, reading) + (" (as above)" if again and inside else "")
        yield Line(f"{indent}{'└─ ' if last else '├─ '}", text, below)
        shown.add(one.name)
        if not again:
            yield from _branches(graph, inside, below, shown)


def _line(one: Projection, reading: Reading) -> str:
    of = ""
    if reading.version is not None:
        of = f" (of version {reading.version})"
    elif reading.timestamp is not None:
        of = f" (of {reading.timestamp})"
    steps = [f"{one.name}{of}"]
    if one.stage is not None:
        steps.append(str(one.stage))
    if one.target is not None:
        steps.append(place(one.target))
    return " → ".join(steps)


def place(target: Target) -> str:
    """Write where something is published: a folder from here on, where it is below."""
    path = Path(target.uri)
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return f"{target.uri if '://' in target.uri else path} ({target.format})"


@dataclass(frozen=True)
class Node:
    """Something in the picture: ``table``, ``projection`` or ``destination``."""

    name: str
    kind: str


def nodes(graph: Graph) -> list[Node]:
    """Return all nodes of the picture: a table that is read comes before what reads it."""
    found: dict[Node, None] = {}
    for edge in edges(graph):
        found.update(dict.fromkeys(edge))
    return list(found)


def edges(graph: Graph) -> list[tuple[Node, Node]]:
    """Return the arrows of the picture."""
    found: dict[tuple[Node, Node], None] = {}
    for one in graph.projections:
        own = Node(one.name, "projection")
        for reading in graph.readings[one.name]:
            found[Node(str(reading.table), "table"), own] = None
        last = own
        if one.stage is not None:
            last = Node(str(one.stage), "table")
            found[own, last] = None
        if one.target is not None:
            found[last, Node(one.target.uri, "destination")] = None
    return list(found)


_SHAPES = {"table": "box", "projection": "ellipse", "destination": "folder"}
_BRACKETS = {"table": ("[", "]"), "projection": ("([", "])"), "destination": ("[/", "/]")}


def dot(graph: Graph) -> str:
    """Write it for Graphviz."""
    numbers = {node: f"n{number}" for number, node in enumerate(nodes(graph), 1)}
    lines = ["digraph projections {", "  rankdir=LR;"]
    for node, number in numbers.items():
        label = json.dumps(node.name, ensure_ascii=False)
        lines.append(f"  {number} [label={label}, shape={_SHAPES[node.kind]}];")
    lines += [f"  {numbers[one]} -> {numbers[other]};" for one, other in edges(graph)]
    return "\n".join([*lines, "}", ""])


def mermaid(graph: Graph) -> str:
    """Write it for Mermaid, as Markdown on many sites takes it."""
    numbers = {node: f"n{number}" for number, node in enumerate(nodes(graph), 1)}
    lines = ["flowchart LR"]
    for node, number in numbers.items():
        begin, end = _BRACKETS[node.kind]
        label = node.name.replace("#", "#35;").replace('"', "#quot;").replace("\n", " ")
        lines.append(f'  {number}{begin}"{label}"{end}')
    lines += [f"  {numbers[one]} --> {numbers[other]}" for one, other in edges(graph)]
    return "\n".join([*lines, ""])
