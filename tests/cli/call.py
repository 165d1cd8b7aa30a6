"""Commands as the tests call them: in this process, on one lake."""

from __future__ import annotations

import importlib
import json
from typing import Any

from click.testing import CliRunner, Result

from singerlake.lake import Lake
from singerlake_cli.main import COMMANDS, cli

# Before a test replaces what commands import from elsewhere: the first import of a command would
# take the replacement, and keep it for the tests after.
for _name in COMMANDS.values():
    importlib.import_module(f"singerlake_cli.commands.{_name}")


def run(lake: Lake | str, *args: str, **more: Any) -> Result:
    """Call a command on a lake.

    Args:
        lake: The lake, or where it lies.
        args: What stands behind ``singerlake --lake …``.
        more: Of click's runner, for example ``input``.
    """
    uri = lake if isinstance(lake, str) else lake.store.uri
    return CliRunner().invoke(cli, ["--lake", uri, *args], **more)


def run_json(lake: Lake | str, *args: str, code: int = 0) -> Any:
    """Call a command and return the document that it prints; it must end with this exit code."""
    result = run(lake, "--output", "json", *args)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)
