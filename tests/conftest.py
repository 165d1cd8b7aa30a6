"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake in a fresh folder."""
    return Lake.open(str(tmp_path / "lake"), create=True)
