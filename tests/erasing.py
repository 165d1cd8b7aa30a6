"""Erasing rows, on the engine that a test is about."""

from __future__ import annotations

from typing import Any

from singerlake.engine.choice import EngineChoice
from singerlake.lake import Table
from singerlake.ops.erase.plan import Erased, EraseOptions
from singerlake.ops.erase.table import EraseRequest
from singerlake.ops.erase.table import erase as erase_rows

WHY = EraseOptions("request 12", lease_wait_seconds=0)


def erase(
    choice: EngineChoice, table: Table, *ids: str, options: EraseOptions = WHY, **asked: Any
) -> Erased:
    """Erase rows of a table, by their ids or by a condition; look for them nowhere else."""
    return erase_rows(EraseRequest(table, ids, **asked), options, choice)
