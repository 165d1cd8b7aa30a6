"""Repeated full syncs of a table without a key to tell rows by.

Only the log is asked, so this is a guess from sizes, and whoever shows it must say "if".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from singerlake.format.log import Operation
from singerlake.log.table_state import TableState

ALIKE = 0.8
"""A whole table that comes again has at least this share of the rows it had, or the other way
round. What a replication key brings is much less from the second sync on."""


@dataclass(frozen=True)
class Repeats:
    """Syncs of about one size.

    Attributes:
        even: Whether all brought as many.
    """

    rows: int
    syncs: int
    last: int
    even: bool

    def __str__(self) -> str:
        about = "" if self.even else "about "
        return f"no key: {self.rows:,} rows after {self.syncs} syncs of {about}{self.last:,}"


def find(snapshot: TableState) -> Repeats | None:
    """Return what there is to say of a table.

    Returns:
        None for a table with a key, with ACTIVATE_VERSION lines (which replace what was there),
        with rows of another origin than syncs, or with syncs of different sizes.
    """
    if not snapshot.transactions or snapshot.schema.key_properties:
        return None
    runs: dict[str, int] = {}  # by writer: a long run commits several times
    for transaction in snapshot.own_transactions:
        if not transaction.rows:
            continue
        if transaction.operation != Operation.SYNC:
            return None
        runs[transaction.writer] = runs.get(transaction.writer, 0) + transaction.rows
    sizes = list(runs.values())
    pairs = pairwise(sizes)
    if len(sizes) < 2 or any(min(pair) < ALIKE * max(pair) for pair in pairs):  # noqa: PLR2004
        return None
    if any(block.activations for block in snapshot.blocks):
        return None
    return Repeats(sum(sizes), len(sizes), sizes[-1], even=len(set(sizes)) == 1)
