"""Holding what an operation asked for to its row of docs/internals/requests.md."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.requests.page import budgets
from tests.requests.tally import spelled

BUDGETS = budgets()


def hold(name: str, spent: Counter[str], **numbers: int) -> None:
    """Hold what was spent to a row of the page."""
    budget = BUDGETS[name].spent(**numbers)
    if spent != budget:
        over, under = spelled(spent - budget), spelled(budget - spent)
        pytest.fail(f"{name} {numbers}\nbeyond its budget: {over}\nnot spent: {under}")
