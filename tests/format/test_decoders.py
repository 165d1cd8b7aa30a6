"""Types are built at import, by one thread: msgspec does not survive two that build one at once."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake
from tests.build import commit_rows

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "singerlake",
    "singerlake_cli",
    "tap_singerlake",
    "target_singerlake",
    "pyspark_singerlake",
)

# Types that only a schema tells are built while a run goes on: by the one thread that takes the
# input, the one that puts the tap's lines out, or the one of Spark's Python worker; and no other
# thread decodes by the same types. Threads that verify blocks may build them side by side, for each
# defines classes of its own; what these share is built at import.
OF_A_SCHEMA = {
    ("singerlake/rows/validation/typed.py", "record_decoder"),
    ("singerlake/rows/validation/typed.py", "key_decoder"),
    ("target_singerlake/prover.py", "decoders"),
    ("target_singerlake/validation.py", "untimed"),
    ("target_singerlake/values.py", "proof"),
    ("target_singerlake/values.py", "proves"),
    ("target_singerlake/values.py", "fitting_decoder"),
    ("singerlake/rows/blocks/bounded_keys.py", "decoder_of"),
    ("singerlake/rows/blocks/fast_decoding.py", "_decoder_of"),
    ("singerlake/rows/blocks/type_prover.py", "_decoder_of"),
    ("singerlake/rows/lines/members.py", "_quick"),
}

AT_IMPORT = {("singerlake/format/sealed.py", "__init__")}
"""Functions that modules call while they are loaded."""

FIRST_DECODING = """
import faulthandler, sys, threading
from singerlake.format import metadata

faulthandler.enable()
sys.setswitchinterval(1e-6)
data = sys.stdin.buffer.read()
barrier = threading.Barrier(8)

def work():
    barrier.wait()
    metadata.decode(data, metadata.Manifest, "here")

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
PROCESSES = 5
"""Of these the first, or the second, died while types were built at their first use."""


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def late_types(path: Path) -> Iterator[tuple[str, str, int]]:
    """Calls of msgspec that build types after the import: file, function, line."""
    name = path.relative_to(ROOT).as_posix()

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = child.name
            if isinstance(child, ast.Call) and _builds_types(ast.unparse(child.func), child, inner):
                yield name, inner, child.lineno
            yield from visit(child, inner)

    return visit(ast.parse(path.read_text(encoding="utf-8")), "")


def _builds_types(called: str, call: ast.Call, function: str) -> bool:
    last = called.rpartition(".")[2]
    if last in {"Decoder", "Encoder"} or called == "sealed.Reader":
        return bool(function)
    if last == "convert" or called.endswith(("json.decode", "msgpack.decode", "yaml.decode")):
        return True
    return last == "decode" and any(keyword.arg == "type" for keyword in call.keywords)


@pytest.mark.usefixtures("many_cases")
def test_no_type_is_built_once_threads_are_at_work() -> None:
    found = {found for path in modules() for found in late_types(path)}
    late = {(name, function) for name, function, _ in found} - AT_IMPORT
    assert late - OF_A_SCHEMA == set(), sorted(found)
    assert late == OF_A_SCHEMA, "the list names a function that builds no types any more"


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    msgspec.json.decode(data, type=Block)",
        "def f():\n    json.decode(data)",
        "def f():\n    decode(data, type=Block)",
        "def f():\n    return [msgspec.json.Decoder(Block) for _ in range(3)]",
        "msgspec.convert(data, Block)",
        "def f():\n    sealed.Reader(Entry)",
    ],
)
def test_such_a_call_is_found(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "module.py").write_text(text)
    assert [*late_types(tmp_path / "module.py")]


@pytest.mark.usefixtures("processes")
def test_many_threads_decode_a_manifest_for_the_first_time(lake: Lake) -> None:
    commit_rows(lake, "tap-one.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    manifest = lake.store.get(TableName("tap-one", "orders").manifest).data
    for _ in range(PROCESSES):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_DECODING], input=manifest, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
