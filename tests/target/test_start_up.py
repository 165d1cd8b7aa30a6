"""The commands start without what they never use, and leave the process as it should be."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

COMMAND = """
import gc, sys
from importlib import import_module
{before}
sys.argv = ["command", "--version"]
try:
    import_module("{module}").main()
except SystemExit as end:
    assert end.code == 0, end.code
assert "joblib" in sys.modules, "the SDK has let go of it: quick_imports can, too"
assert ("numpy" in sys.modules) == ("numpy" in "{before}"), "numpy was imported after all"
assert not {{"boto3", "pyspark", "yaml"}} & sys.modules.keys()
unneeded = "singerlake.annotations.", "singerlake.maintenance.alter", "singerlake.maintenance.scan"
assert not [name for name in sys.modules if name.startswith(unneeded)]
assert gc.isenabled()
import numpy
assert numpy.arange(3).sum() == 3
"""


@pytest.mark.parametrize("plugin", ["tap", "target"])
@pytest.mark.parametrize("before", ["", "import numpy"])
def test_a_command_imports_no_numpy_and_does_not_spoil_it(plugin: str, before: str) -> None:
    code = COMMAND.format(module=f"{plugin}_singerlake.__main__", before=before)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=60)


@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_the_command_is_the_quick_one(plugin: str) -> None:
    [command] = entry_points(group="console_scripts", name=f"{plugin}-singerlake")
    assert command.value == f"{plugin}_singerlake.__main__:main"
