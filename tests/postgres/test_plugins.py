"""Other people's plugins are missing: without a network a reason to skip, with one to fail."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import plugins


@pytest.mark.usefixtures("environments")
@pytest.mark.parametrize("network", [False, True])
def test_a_failed_installation_is_no_skip_where_there_is_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    class Connection:
        def close(self) -> None:
            pass

    def connect(*_: Any, **__: Any) -> Connection:
        if not network:
            raise OSError("Name or service not known")
        return Connection()

    def make(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 2)

    monkeypatch.setattr(plugins, "ENVIRONMENTS", tmp_path / ".venv-postgres")
    monkeypatch.setattr(plugins.subprocess, "run", make)
    monkeypatch.setattr(plugins.socket, "create_connection", connect)
    expected = subprocess.CalledProcessError if network else plugins.NoNetworkError
    with pytest.raises(expected):
        plugins.installed()
