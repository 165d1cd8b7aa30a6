"""The commands start without what they never use, and leave the process as it should be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from singerlake.plugins.stand_ins import stand_ins

COMMAND = """
import gc, sys
from importlib import import_module
sys.argv = ["command", "--version"]
try:
    import_module("{module}").main()
except SystemExit as end:
    assert end.code == 0, end.code
unneeded = {{
    "asyncio", "boto3", "fsspec", "importlib_metadata", "joblib", "jsonpath_ng", "numpy", "psutil",
    "pyarrow", "pyspark", "requests", "singer_sdk.streams.rest", "upath", "urllib3", "yaml",
}}
assert not (found := unneeded & sys.modules.keys()), found
unneeded = "singerlake.annotations.", "singerlake.maintenance.alter", "singerlake.maintenance.scan"
assert not [name for name in sys.modules if name.startswith(unneeded)]
assert gc.isenabled()

import joblib, requests, singer_sdk
from singer_sdk import target_base
from singer_sdk.helpers import _batch
with target_base.parallel_config(backend="threading", n_jobs=2):
    target_base.Parallel()(target_base.delayed(abs)(n) for n in (-1, -2))
assert joblib.Parallel()(joblib.delayed(abs)(n) for n in (-1, -2)) == [1, 2]
assert requests.Request("GET", "https://example.org").method == "GET"
assert _batch.UPath("/a/b").name == "b"
class Rows(singer_sdk.RESTStream):
    url_base = "https://example.org"
from singer_sdk.streams.rest import RESTStream
assert RESTStream in Rows.__mro__
assert issubclass(Rows, singer_sdk.Stream) and issubclass(Rows, singer_sdk.RESTStream)
"""


@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_a_command_imports_what_it_needs_and_spoils_nothing_else(plugin: str) -> None:
    code = COMMAND.format(module=f"{plugin}_singerlake.__main__")
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=60)


@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_about_needs_more_and_gets_it(plugin: str) -> None:
    command = [sys.executable, "-m", f"{plugin}_singerlake", "--about", "--format=json"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert "3.11" in json.loads(done.stdout)["supported_python_versions"]


@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_the_command_is_the_quick_one(plugin: str) -> None:
    [command] = entry_points(group="console_scripts", name=f"{plugin}-singerlake")
    assert command.value == f"{plugin}_singerlake.__main__:main"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "heavy.py").write_text("class Used(list):\n    size = 3\n\n\nother = 4\n")
    yield tmp_path
    for name in ("heavy", "light"):
        sys.modules.pop(name, None)


def light(package: Path, source: str) -> ModuleType:
    """Import a module while another stands in for what it imports."""
    (package / "light.py").write_text(source)
    with stand_ins({"heavy": ("Used",)}):
        return import_module("light")


def test_a_stand_in_is_replaced_when_it_is_used(package: Path) -> None:
    module = light(package, "import heavy\nfrom heavy import Used\n")
    assert "heavy" not in sys.modules
    assert module.Used("ab") == ["a", "b"]
    assert module.Used.size == 3
    assert isinstance(module.Used(), module.Used)
    assert not isinstance([], module.Used)
    assert module.heavy.other == 4
    assert module.heavy.Used("a") == ["a"]


def test_a_name_that_nobody_foresaw_imports_the_real_module(package: Path) -> None:
    module = light(package, "from heavy import other\n")
    assert module.other == sys.modules["heavy"].other == 4


def test_a_module_that_is_there_is_not_stood_in_for(package: Path) -> None:
    heavy = import_module("heavy")
    assert light(package, "from heavy import Used\n").Used is heavy.Used
    assert sys.modules["heavy"] is heavy


@pytest.mark.parametrize(
    "source",
    [
        "import upath.core",  # a stand-in has no modules of its own
        "from upath import UPath\nchoice = UPath | None",
        "from upath import UPath\nUPath.cwd()",
        "import upath\nupath.UPath.cwd()",
    ],
)
def test_where_stand_ins_do_not_do_all_is_imported(package: Path, source: str) -> None:
    (package / "light.py").write_text(f"{source}\ndone = True\n")
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r})\n"
        "from singerlake.plugins.quick_imports import quick_import\n"
        "assert quick_import('light').done\n"
        "assert 'upath' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_cannot_be_imported_is_said(package: Path) -> None:
    (package / "light.py").write_text("import heavy.nothing\n")
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r})\n"
        "from singerlake.plugins.quick_imports import quick_import\n"
        "quick_import('light')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "No module named 'heavy.nothing'" in done.stderr
