"""What is wrong with rows that somebody gives: where, what stands there, and why it will not do.

Plain data, without Arrow: tasks send it to the driver, and commands print it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from singerlake.errors import RejectedRowsError
from singerlake.format.values import SHOWN
from singerlake.quantities import count

MOST = 10_000
"""Problems that a task sends; beyond them it counts."""
FIRST = 10
"""Problems that an error shows."""
LONGEST = 1_000
"""Characters of a value that are kept."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a row.

    Attributes:
        source: The file, or what else the row comes from; where that is the table itself, the row.
        line: The line of the file on which the row begins, from 1; of other sources the row's
            number, from 1; None where the source is a row.
        column: The column; None where it is the row as a whole.
        value: What stands there, as text; None where nothing does, or it says nothing.
        reason: What is wrong with the value, as words that follow it: ``is no number``.
    """

    source: str
    line: int | None
    column: str | None
    value: str | None
    reason: str

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}, line {self.line:,}"
        if self.column is not None:
            where += f", column {self.column!r}"
        if self.value is None:
            return f"{where}: {self.reason}"
        cut = self.value[:SHOWN]
        return f"{where}: {cut!r}{'…' * (cut != self.value)} {self.reason}"


class RowProblem(NamedTuple):
    """One thing that is wrong with a row of a batch, before it is known where that came from.

    Attributes:
        row: The row's index in the batch.
        column: As in :class:`Problem`, as is what follows.
    """

    row: int
    column: str | None
    value: str | None
    reason: str

    def at(self, source: str, line: int | None, row_id: str | None = None) -> Problem:
        """Return the problem with the place that its row came from.

        Args:
            source: As in :class:`Problem`, but without the row.
            line: As there.
            row_id: Names the row where it has no line.
        """
        value = None if self.value is None else kept(self.value)
        if line is None and row_id is not None:
            source = f"{source}, row {row_id!r}"
        return Problem(source, line, self.column, value, self.reason)


class Problems(msgspec.Struct):
    """Problems as they are found: the first are kept, all are counted.

    Attributes:
        total: How many there are.
        first: The first of them, in the order in which they were added.
        misquoted: Files in which a quote is out of place. Where the records behind it begin,
            tasks that read on from there cannot know: what they find is left out.
        unchecked: Those of which there is more behind.
    """

    total: int = 0
    first: list[Problem] = msgspec.field(default_factory=list)
    misquoted: list[str] = msgspec.field(default_factory=list)
    unchecked: list[str] = msgspec.field(default_factory=list)

    def add(self, problem: Problem, most: int = MOST) -> None:
        """Add one, which is kept if there are fewer than ``most``."""
        self.total += 1
        if len(self.first) < most:
            self.first.append(problem)

    def merge(self, others: Problems, most: int = MOST) -> None:
        """Add what somebody else found, after one's own."""
        known = [problem for problem in others.first if problem.source not in self.misquoted]
        # Those that were only counted are of the last file, as far as anybody knows.
        last = others.first[-1].source if others.first else None
        more = 0 if last in self.misquoted else others.total - len(others.first)
        self.total += len(known) + more
        self.first += known[: max(0, most - len(self.first))]
        self.misquoted += [name for name in others.misquoted if name not in self.misquoted]
        self.unchecked += [name for name in others.unchecked if name not in self.unchecked]

    def encode(self) -> bytes:
        """Encode them as a task sends them."""
        return msgspec.msgpack.encode(self)


class Stages:
    """What is wrong with given rows: what one stage finds keeps no later one from looking.

    Of a row that could not be read whole, a later stage may only miss what was not read: what it
    says of such a row is left out.

    Args:
        sources: What messages call the rows' sources, in order.
        unread: What those found who read the rows.
    """

    def __init__(self, sources: Sequence[str], unread: Problems) -> None:
        self._order = {name: number for number, name in enumerate(sources)}
        self._unread = {(problem.source, problem.line) for problem in unread.first}
        self._found = [unread]

    @property
    def total(self) -> int:
        """How many problems there are by now."""
        return sum(found.total for found in self._found)

    @property
    def blind(self) -> bool:
        """Whether nobody knows where the rows behind some place begin."""
        return bool(self._found[0].misquoted)

    def add(self, found: Problems, *, of_read_cells: bool = False) -> None:
        """Add what a stage has found; it may be of cells only that were read."""
        unread = set() if of_read_cells else self._unread
        new = [one for one in found.first if (one.source, one.line) not in unread]
        self._found.append(Problems(found.total - len(found.first) + len(new), new))

    def whole(self, most: int = MOST) -> Problems:
        """Return all of it, by place."""
        first = [problem for found in self._found for problem in found.first]
        last = len(self._order)
        first.sort(key=lambda one: (self._order.get(one.source, last), one.line or 0))
        unread = self._found[0]
        return Problems(self.total, first[:most], unread.misquoted, unread.unchecked)


decode: Callable[[bytes], Problems] = msgspec.msgpack.Decoder(Problems).decode
"""Decode what :meth:`Problems.encode` gave."""


def merged(parts: Iterable[Problems], most: int = MOST) -> Problems:
    """Put together what tasks found, in the order of the tasks."""
    whole = Problems()
    for part in parts:
        whole.merge(part, most)
    return whole


def kept(value: str) -> str:
    """Return as much of a value as a problem keeps."""
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def rejected(problems: Problems) -> RejectedRowsError:
    """Say the first problems, and how many there are.

    Args:
        problems: At least one.
    """
    alike = Counter(map(str, problems.first))  # rows that have no line are told alike
    shown = [*alike.items()][:FIRST]
    lines = [f"{count(problems.total, 'problem')} in the given rows; nothing was changed:"]
    lines += [f"  {text}" + (f" ({times:,} rows)" if times > 1 else "") for text, times in shown]
    if more := problems.total - sum(times for _, times in shown):
        lines.append(f"  and {more:,} more")
    lines += [
        f"  and perhaps more, far after the misplaced quote in {name}"
        for name in problems.unchecked
    ]
    error = RejectedRowsError("\n".join(lines))
    error.lines = tuple(lines)
    error.problems = problems
    return error
