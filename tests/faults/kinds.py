"""The kinds of faults that operations in this process are tested under."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.faults.faulty_store import KINDS, OUTAGE, Kind
from tests.needs import MORE


def each_kind(
    quick: Sequence[tuple[Kind, str]], more: Sequence[tuple[Kind, str]] = ()
) -> pytest.MarkDecorator:
    """Try some kinds of faults, or all where ``SINGERLAKE_FAULTS`` says so.

    Args:
        quick: A kind, and what the keys of the places must contain where it happens.
        more: The same, of those that are left to ``make test-all``.
    """
    every = os.environ.get("SINGERLAKE_FAULTS") == "all"
    cases = [(kind, "") for kind in KINDS] if every else [*quick, *more]
    return pytest.mark.parametrize(
        ("kind", "part"),
        # An outage from one operation on is much like one that begins with a lost reply.
        [
            pytest.param(*case, marks=MORE if case[0] is OUTAGE or case in more else ())
            for case in cases
        ],
        ids=lambda value: value or "all" if isinstance(value, str) else value.name,
    )
