"""What a run told OpenLineage, written to a file by its client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def tell_into(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configure the client, by its own variables, to write events to a file."""
    pytest.importorskip("openlineage.client")  # half a second, so not where tests are collected
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE_")]:
        monkeypatch.delenv(name)
    file = folder / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    return file


def events(file: Path) -> list[Any]:
    """All events so far."""
    return [json.loads(line) for line in file.read_text().splitlines()]
