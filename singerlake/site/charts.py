"""The numbers of the drawings: where each bar of a chart and each box of a lineage stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from singerlake.site.pages import Edge, TablePage, Transaction

WIDTH = 960
PANEL = 96
GAP = 30
TOP = 26
BAR = 14
BOX_WIDTH, BOX_HEIGHT, BOX_GAP = 250, 44, 14
MOST_BOXES = 8
_LETTERS = 30


class Bar(NamedTuple):
    """A transaction: its place, and how high its rows and bytes are drawn."""

    transaction: Transaction
    x: float
    width: float
    rows_y: float
    rows_height: float
    bytes_y: float
    bytes_height: float


@dataclass(frozen=True)
class Mark:
    """A version, at the transaction whose state it is."""

    number: int
    label: str | None
    x: float
    shown: bool


@dataclass(frozen=True)
class Chart:
    """Rows above, bytes below, the oldest transaction at the left."""

    bars: list[Bar]
    marks: list[Mark]
    rows_base: float
    bytes_base: float
    height: float
    width: float
    most_rows: int
    most_bytes: int


def bars(chart: Chart) -> Markup:
    """The bars of a chart, in SVG; one expression of a template where it would be hundreds."""
    found = []
    for bar in chart.bars:
        for kind, y, height in (
            ("rows", bar.rows_y, bar.rows_height),
            ("bytes", bar.bytes_y, bar.bytes_height),
        ):
            if height:
                found.append(
                    f'<rect class="{kind}" x="{bar.x}" y="{y}" width="{bar.width}" '
                    f'height="{height}" rx="1.5"/>'
                )
    return Markup("".join(found))  # noqa: S704  # numbers alone


def history(page: TablePage) -> Chart | None:
    """The chart of a table's transactions; None where there is none."""
    shown = page.transactions
    if not shown:
        return None
    most_rows = max(t.rows for t in shown)
    most_bytes = max(t.bytes for t in shown)
    step = WIDTH / len(shown)
    width = max(1.5, min(BAR * 3, step * 0.72))
    rows_base, bytes_base = TOP + PANEL, TOP + 2 * PANEL + GAP
    bars = []
    for place, one in enumerate(shown):
        rows = _height(one.rows, most_rows)
        size = _height(one.bytes, most_bytes)
        x = round(place * step + (step - width) / 2, 2)
        bars.append(
            Bar(
                transaction=one,
                x=x,
                width=round(width, 2),
                rows_y=round(rows_base - rows, 2),
                rows_height=rows,
                bytes_y=round(bytes_base - size, 2),
                bytes_height=size,
            )
        )
    marks = _marks(page, bars)
    return Chart(
        bars=bars,
        marks=marks,
        rows_base=rows_base,
        bytes_base=bytes_base,
        height=bytes_base + 8,
        width=WIDTH,
        most_rows=most_rows,
        most_bytes=most_bytes,
    )


def _height(value: int, most: int) -> float:
    if value <= 0 or most <= 0:
        return 0.0
    return round(max(2.0, value * PANEL / most), 2)


def _marks(page: TablePage, bars: list[Bar]) -> list[Mark]:
    """A mark for each version, its number written where there is room for it."""
    places = {bar.transaction.number: round(bar.x + bar.width / 2, 2) for bar in bars}
    marks: list[Mark] = []
    last = -100.0
    for version in page.versions:
        x = places.get(version.transaction)
        if x is None:
            continue
        shown = x - last >= 34  # noqa: PLR2004  # as wide as v1234 is
        if shown:
            last = x
        marks.append(Mark(version.number, version.label, x, shown))
    return marks


@dataclass(frozen=True)
class Box:
    """A table in the lineage."""

    text: str
    note: str
    path: str | None
    full: str
    x: float
    y: float


@dataclass(frozen=True)
class Lineage:
    """Sources at the left, the table in the middle, what was made of it at the right."""

    left: list[Box]
    middle: Box
    right: list[Box]
    more_left: int
    more_right: int
    height: float
    width: float = WIDTH
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


def lineage(page: TablePage) -> Lineage | None:
    """The drawing of where a table comes from and goes to; None where nothing is known."""
    if not page.sources and not page.uses:
        return None
    left, right = page.sources[:MOST_BOXES], page.uses[:MOST_BOXES]
    rows = max(len(left), len(right), 1)
    height = rows * (BOX_HEIGHT + BOX_GAP) + BOX_GAP
    middle = (WIDTH - BOX_WIDTH) / 2
    name = page.summary.name
    return Lineage(
        left=_boxes(left, 1, height),
        middle=Box(_short(name), "this table", None, name, middle, (height - BOX_HEIGHT) / 2),
        right=_boxes(right, WIDTH - BOX_WIDTH - 1, height),
        more_left=len(page.sources) - len(left) + page.more_sources,
        more_right=len(page.uses) - len(right) + page.more_uses,
        height=height,
    )


def _boxes(edges: list[Edge], x: float, height: float) -> list[Box]:
    used = len(edges) * (BOX_HEIGHT + BOX_GAP) - BOX_GAP
    start = (height - used) / 2
    return [
        Box(
            text=_short(edge.table),
            note=read_at(edge),
            path=edge.path,
            full=edge.table,
            x=x,
            y=round(start + place * (BOX_HEIGHT + BOX_GAP), 2),
        )
        for place, edge in enumerate(edges)
    ]


def read_at(edge: Edge) -> str:
    """Return which state was read."""
    if edge.version is not None:
        return f"version {edge.version}"
    return f"head, transaction {edge.transaction}" if edge.transaction else "head"


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
