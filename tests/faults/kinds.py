"""The kinds of faults that operations in this process are tested under."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.faults.faulty_store import KINDS, Kind


def each_kind(quick: Sequence[tuple[Kind, str]]) -> pytest.MarkDecorator:
    """Try some kinds of faults, or all where ``SINGERLAKE_FAULTS`` says so.

    Args:
        quick: A kind, and what the keys of the places must contain where it happens.
    """
    return pytest.mark.parametrize(
        ("kind", "part"),
        [(kind, "") for kind in KINDS] if os.environ.get("SINGERLAKE_FAULTS") == "all" else quick,
        ids=lambda value: value or "all" if isinstance(value, str) else value.name,
    )
