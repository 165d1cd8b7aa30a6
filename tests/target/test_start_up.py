"""The commands start without what they never use, and leave the process as it should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from singerlake.plugins.stand_ins import NOTED, stand_ins

UNNEEDED = {
    "asyncio", "attr", "boto3", "csv", "dotenv", "email.message", "fsspec", "importlib.metadata",
    "importlib.resources", "importlib_metadata", "ipaddress", "joblib", "jsonpath_ng", "jsonschema",
    "jsonschema_specifications", "logging.config", "numpy", "packaging", "psutil",
    "pyarrow", "pyspark", "referencing", "requests", "rpds", "shutil", "singer_sdk.about",
    "singer_sdk.mapper_base",
    "singer_sdk.schema.source",
    "singer_sdk.sinks", "singer_sdk.streams.rest", "singerlake.annotations.changes",
    "singerlake.overlay.alter", "singerlake.log.schema_difference",
    "singerlake.log.scan", "singerlake.rows.input", "tempfile", "upath", "urllib3",
    "yaml",
    "zipfile",
}  # fmt: skip
"""What neither plugin needs to begin."""
UNNEEDED_BY = {
    "tap": {"singer_sdk.target_base", "singerlake.log.writer"},
    "target": {
        "simpleeval",
        "simplejson",
        "singer_sdk.helpers._batch",
        "singer_sdk.singerlib.catalog",
        "singer_sdk.singerlib.messages",
        "singer_sdk.singerlib.schema",
        "singer_sdk.mapper",
        "singer_sdk.streams",
        "singer_sdk.tap_base",
        "target_singerlake.batches.contents",
        "target_singerlake.batches.intake",
        "target_singerlake.batches.proving",
        "target_singerlake.batches.roots",
        "target_singerlake.hook",
        "target_singerlake.metadata_sink",
    },
}

COMMAND = """
import gc, sys
from importlib import import_module
from importlib.util import find_spec
sys.argv = ["command", *{arguments!r}]
try:
    import_module("{module}").main()
except SystemExit as end:
    assert not end.code, end.code
unneeded = {unneeded!r}
assert not (found := sorted(unneeded & sys.modules.keys())), found
assert gc.isenabled()
"""
AFTERWARDS = """
gone = [name for name in unneeded if name.startswith("singer") and find_spec(name) is None]
assert not gone, gone  # renamed: rename it in the test

import importlib.metadata, importlib.resources, json, logging, logging.config
import dotenv, joblib, jsonschema, referencing, requests, singer_sdk
from singer_sdk import about, singerlib, target_base
assert singerlib.Catalog().to_dict() == {{"streams": []}}
record = singerlib.RecordMessage(stream="a", record={{"id": 1}})
assert json.loads(singerlib.format_message(record))["stream"] == "a"
assert isinstance(record, singerlib.Message)
assert singer_sdk.io_base.SingerReader and about.AboutInfo
from singer_sdk.helpers import _batch
from singer_sdk.plugin_base import JSONSchemaValidator
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
class Sink(singer_sdk.RecordSink):
    process_record = None
from singer_sdk.sinks import RecordSink
assert issubclass(Sink, RecordSink)
assert importlib.metadata.version("singer-sdk")
schema = {{"properties": {{"a": {{"type": "string", "default": "b"}}}}}}
assert not list(JSONSchemaValidator(schema).iter_errors(filled := {{}})) and filled == {{"a": "b"}}
assert len(list(JSONSchemaValidator(schema).iter_errors({{"a": 1}}))) == 1
from singer_sdk.singerlib.schema import resolve_schema_references
refers = {{"$ref": "#/$defs/a", "$defs": {{"a": {{"type": "string"}}}}}}
assert resolve_schema_references(refers, {{}})["type"] == "string"
"""


def command(plugin: str, *arguments: str, afterwards: bool = False) -> str:
    unneeded = UNNEEDED | UNNEEDED_BY[plugin]
    code = COMMAND + AFTERWARDS * afterwards
    return code.format(
        module=f"{plugin}_singerlake.__main__", arguments=arguments, unneeded=unneeded
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_a_command_imports_what_it_needs_and_spoils_nothing_else(plugin: str) -> None:
    code = command(plugin, "--version", afterwards=True)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=60)


@pytest.mark.usefixtures("processes")
def test_a_run_imports_what_it_needs(tmp_path: Path) -> None:
    settings = json.dumps({"lake": str(tmp_path / "lake"), "tap_id": "tap-a"})
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    lines = [
        {"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": ["id"]},
        {"type": "RECORD", "stream": "a", "record": {"id": 1}},
        {"type": "STATE", "value": {"a": 1}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    for plugin in ("target", "target", "tap"):  # into a new table, into one that is there
        code = command(plugin, "--config", settings)
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, input=text, capture_output=True, text=True
        )
        assert '{"a":' in done.stdout.replace(" ", ""), done.stdout


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("plugin", ["tap", "target"])
def test_about_needs_more_and_gets_it(plugin: str) -> None:
    command = [sys.executable, "-m", f"{plugin}_singerlake", "--about", "--format=json"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert "3.11" in json.loads(done.stdout)["supported_python_versions"]


@pytest.mark.usefixtures("processes")
def test_a_configuration_of_logging_is_taken(tmp_path: Path) -> None:
    (tmp_path / "log.yml").write_text("version: 1\nroot: {level: ERROR}\n")
    environment = {**os.environ, "SINGER_SDK_LOG_CONFIG": str(tmp_path / "log.yml")}
    settings = json.dumps({"lake": str(tmp_path / "lake"), "tap_id": "tap-a"})
    command = [sys.executable, "-m", "target_singerlake", "--config", settings]
    done = subprocess.run(
        command, check=True, capture_output=True, env=environment, stdin=subprocess.DEVNULL
    )
    assert done.stderr == b""


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
    for name in ("heavy", "light", "whole", "whole.part"):
        sys.modules.pop(name, None)


def light(package: Path, source: str, *names: str) -> ModuleType:
    """Import a module while another stands in for what it imports."""
    (package / "light.py").write_text(source)
    with stand_ins({"heavy": names or ("Used",)}):
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


def test_what_is_done_with_a_name_meanwhile_is_done_later(package: Path) -> None:
    source = (
        "from heavy import Used, other\n"
        "made = Used(['a', 'b']); first = made[0]; size = Used.size; again = Used(made)\n"
    )
    module = light(package, source, f"Used{NOTED}", f"other{NOTED}")
    assert "heavy" not in sys.modules
    assert module.again.copy() == ["a", "b"]
    assert sys.modules["heavy"].Used is not module.Used
    assert isinstance(sys.modules["heavy"].Used("a"), module.Used)
    assert module.first.upper() == "A"
    assert module.size.real == 3
    assert module.made.append("c") is None
    assert module.made.index("c") == 2  # done once, and kept
    assert module.Used("a") == ["a"]


def test_a_module_inside_of_another_is_found_there(package: Path) -> None:
    (package / "whole").mkdir()
    (package / "whole" / "__init__.py").write_text("")
    (package / "whole" / "part.py").write_text("size = 3\n")
    (package / "light.py").write_text("import whole.part\n")
    with stand_ins({"whole.part": ()}):
        module = import_module("light")
    assert "whole.part" not in sys.modules
    assert module.whole.part.size == 3
    assert module.whole.part is sys.modules["whole.part"]


def test_a_name_that_nobody_foresaw_imports_the_real_module(package: Path) -> None:
    module = light(package, "from heavy import other\n")
    assert module.other == sys.modules["heavy"].other == 4


def test_a_module_that_is_there_is_not_stood_in_for(package: Path) -> None:
    heavy = import_module("heavy")
    assert light(package, "from heavy import Used\n").Used is heavy.Used
    assert sys.modules["heavy"] is heavy


@pytest.mark.usefixtures("processes")
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
        "from singerlake.plugins.quick_imports import UNUSED_BY_TAP, quick_import\n"
        "assert quick_import('light', UNUSED_BY_TAP).done\n"
        "assert 'upath' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.usefixtures("processes")
def test_what_cannot_be_imported_is_said(package: Path) -> None:
    (package / "light.py").write_text("import heavy.nothing\n")
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r})\n"
        "from singerlake.plugins.quick_imports import UNUSED_BY_TAP, quick_import\n"
        "quick_import('light', UNUSED_BY_TAP)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "No module named 'heavy.nothing'" in done.stderr
