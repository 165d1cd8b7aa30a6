"""The budgets as docs/internals/requests.md states them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "requests.md"
_ROW = re.compile(r"^\| `([a-z-]+)`(.*?) \| (.*) \| ([^|]*) \|$", re.MULTILINE)
_REQUESTS = re.compile(r"(?:\*?(\d*[a-z]*)\*? )?`([A-Z]+ [a-z-]+(?: \([a-z]+\))?)`")
_REASON = re.compile(r"^\| `([A-Z]+ [a-z-]+)` \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Budget:
    """A row of the page.

    Attributes:
        requests: Kind and how often, as a term like ``2nk``; a kind may come twice.
        total: The terms that the row says they add up to.
    """

    requests: list[tuple[str, str]]
    total: list[str]

    def spent(self, **numbers: int) -> Counter[str]:
        """The requests where each letter is a number."""
        found = Counter[str]()
        for kind, times in self.requests:
            found[kind] += _value(times, numbers)
        return found

    def sum(self, **numbers: int) -> int:
        """What the row says they are in all."""
        return sum(_value(term, numbers) for term in self.total)


def _value(term: str, numbers: dict[str, int]) -> int:
    digits = "".join(c for c in term if c.isdigit())
    return int(digits or 1) * prod(numbers[c] for c in term if c.isalpha())


def budgets() -> dict[str, Budget]:
    """The rows of the first table, by name."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    found = {}
    for name, more, requests, total in _ROW.findall(text):
        parts = _REQUESTS.findall(requests)
        assert ", ".join(_spelled(*part) for part in parts) == requests, requests
        budget = Budget([(kind, times) for times, kind in parts], total.split(" + "))
        for one in (name, *re.findall(r"or `([a-z-]+)`", more)):
            found[one] = budget
    return found


def _spelled(times: str, kind: str) -> str:
    return f"`{kind}`" if not times else f"{times if times.isdigit() else f'*{times}*'} `{kind}`"


def reasons() -> dict[str, str]:
    """Why each kind of request is made."""
    return dict(_REASON.findall(PAGE.read_text(encoding="utf-8")))
