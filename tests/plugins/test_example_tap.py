"""The small tap of the Meltano project is an example that leaves nothing open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TAP = Path(__file__).parents[2] / "examples" / "tap-shop"


@pytest.mark.usefixtures("processes")
def test_it_goes_on_from_its_state_without_a_warning(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    arguments = [sys.executable, "-X", "dev", str(TAP)]
    counts = []
    for _ in range(3):
        done = subprocess.run(arguments, capture_output=True, check=True)
        assert done.stderr == b""
        *messages, last = map(json.loads, done.stdout.splitlines())
        counts.append(len(messages) - 1)
        state.write_text(json.dumps(last["value"]))
        arguments = [*arguments[:4], "--state", str(state)]
    assert counts == [100, 41, 0]
