"""The state after some messages, folded row after row in plain Python: the yardstick."""

from __future__ import annotations

import random
from typing import Any

from tests.faults.plain import is_time

Message = dict[str, Any] | tuple[dict[str, Any], int] | int
MARKS: tuple[Any, ...] = ("2020-01-01T00:00:00Z", "2020-01-01 00:00:00", "", "no", None)
"""What records have as ``_sdc_deleted_at``; only times make deletions of them."""


def fold(messages: list[Message], keys: list[str]) -> list[dict[str, Any]]:
    """The records of the state after all messages, in order of arrival."""
    rows: list[tuple[tuple[Any, ...], int | None, dict[str, Any]]] = []
    for message in messages:
        if isinstance(message, int):
            rows = [row for row in rows if row[1] == message]
            continue
        record, version = message if isinstance(message, tuple) else (message, None)
        key = tuple(record.get(name) for name in keys)
        if keys and None not in key:  # a row with a null in its key is a row of its own
            rows = [row for row in rows if row[0] != key]
        if not is_time(record.get("_sdc_deleted_at")):
            rows.append((key, version, record))
    return [record for _, _, record in rows]


def survivors(messages: list[Message]) -> list[tuple[int, int | None, bool]]:
    """Of each row: its place among the rows, its version, whether activations leave it."""
    rows: list[list[Any]] = []
    for message in messages:
        if isinstance(message, int):
            for row in rows:
                row[2] = row[2] and row[1] == message
            continue
        version = message[1] if isinstance(message, tuple) else None
        rows.append([len(rows), version, True])
    return [(place, version, left) for place, version, left in rows]


def messages_of(
    seed: int,
    keys: list[str],
    count: int,
    marks: tuple[Any, ...] = MARKS[:2],
    *,
    nulls: bool = False,
) -> list[Message]:
    """Many rows over few keys, with deletions and activations in between.

    Args:
        seed: What decides.
        keys: The table's key.
        count: How many.
        marks: What marks deletions.
        nulls: Whether some keys have a null in them, as those of an earlier release may have.
    """
    chance = random.Random(seed)
    messages: list[Message] = []
    version = 1
    for n in range(count):
        if chance.random() < 0.01:
            if chance.random() < 0.7:
                version = chance.randint(1, 3)
            messages.append(version)
            continue
        record: dict[str, Any] = {"id": chance.randint(1, 40), "n": n}
        if "part" in keys or chance.random() < 0.5:
            none = None if nulls or "part" not in keys else "c"
            record["part"] = chance.choice(["a", "b", none, 'q"`.'])
        if chance.random() < 0.1:
            record["_sdc_deleted_at"] = chance.choice(marks)
        kind = chance.random()
        messages.append(
            record if kind < 0.2 else (record, version if kind < 0.9 else chance.randint(1, 3))
        )
    return messages
