"""What the tap's command line is given: settings, state and catalog, in files, pipes and text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import UsageError
from singerlake.lake import Lake
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows
from tests.tap.run import ROOT, Run, catalog_of, config_of, run

INT = {"id": {"type": "integer"}}
WHOLE = {"bookmarks": {"a": {"transaction": 1}}}


@pytest.fixture
def two(lake: Lake) -> Lake:
    for stream in ("a", "b"):
        commit_rows(lake, f"tap_x.{stream}", INT, ["id"], [{"id": 1}, {"id": 2}])
    return lake


def _tap(*arguments: str, stdin: str = "", shell: str = "") -> subprocess.CompletedProcess[str]:
    """The tap as a process, in a shell where it is about the shell's own syntax."""
    command = [sys.executable, "-m", "tap_singerlake", *arguments]
    if shell:
        command = ["bash", "-c", f"{sys.executable} -m tap_singerlake {shell}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "SINGERLAKE_"))}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=ROOT, env=env, check=False
    )


def _one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    [line] = (text for text in done.stderr.splitlines() if "INFO" not in text)
    return line


def _records(text: str) -> int:
    return len(Run(text.encode()).records())


@pytest.mark.usefixtures("processes")
def test_settings_come_as_text_and_through_pipes(two: Lake, tmp_path: Path) -> None:
    settings = json.dumps({"lake": two.store.uri, "streams": ["a"]})
    assert _records(_tap("--config", settings).stdout) == 2
    assert _records(_tap("--config", f"  {settings}\n").stdout) == 2
    assert _records(_tap(shell=f"--config <(echo '{settings}')").stdout) == 2
    first = _tap("--config", settings)
    state = json.dumps(Run(first.stdout.encode()).state)
    piped = f"--config <(echo '{settings}') --state <(echo '{state}')"
    assert _records(_tap(shell=piped).stdout) == 0
    catalog = json.dumps(catalog_of(two))
    assert _records(_tap(shell=f"--config '{settings}' --catalog <(echo '{catalog}')").stdout) == 2


@pytest.mark.usefixtures("processes")
def test_later_settings_go_over_earlier_ones(two: Lake, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"lake": "nowhere", "streams": ["b"]}).encode())
    text = json.dumps({"lake": two.store.uri})
    assert _records(_tap("--config", str(path), "--config", text).stdout) == 2


@pytest.mark.usefixtures("processes")
def test_settings_that_are_no_use_are_one_line_without_a_secret(tmp_path: Path) -> None:
    secret = "hunter2"
    for text in (f'{{"aws_secret_access_key": "{secret}"', f'{{"lak": "{secret}"}}'):
        line = _one_line(_tap("--config", text), 2)
        assert line.startswith("tap-singerlake: the text behind --config ")
        assert secret not in line
    path = tmp_path / "config.json"
    for text, words in (
        ("[1]", "no settings"),
        ("{", "read as JSON"),
        ("", "read as JSON"),
    ):
        path.write_text(text)
        assert words in _one_line(_tap("--config", str(path)), 2)
    assert "--config is empty" in _one_line(_tap("--config", ""), 2)
    assert "No such file" in _one_line(_tap("--config", str(tmp_path / "none.json")), 2)
    assert "Is a directory" in _one_line(_tap("--config", str(tmp_path)), 2)


STATES = [WHOLE, {"type": "STATE", "value": WHOLE}, {"singer_state": WHOLE}]
STATES.append({"type": "STATE", "value": {"singer_state": WHOLE}})
STATES.append({"completed": {"singer_state": WHOLE}, "partial": {}})


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("wrapped", range(len(STATES)))
def test_a_wrapped_state_is_unwrapped(two: Lake, wrapped: int) -> None:
    state = run(two, streams=["a"]).state
    given = json.loads(json.dumps(STATES[wrapped]).replace(json.dumps(WHOLE), json.dumps(state)))
    settings = json.dumps(config_of(two, streams=["a"]))
    done = _tap(shell=f"--config '{settings}' --state <(echo '{json.dumps(given)}')")
    assert done.returncode == 0
    assert _records(done.stdout) == 0
    assert Run(done.stdout.encode()).state == state
    assert run(two, given, streams=["a"]).records() == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "text",
    [
        "[]", "[1]", "5", "null", '"state.json"', "true",
        '{"type": "STATE"}', '{"type": "STATE", "value": null}',
        '{"completed": {"singer_state": 1}}',
        '{"bookmarks": []}', '{"bookmarks": {"a": 5}}', '{"type": "STATE", "value": [1]}',
        '{"bookmarks": {"a": {"partitions": 5}}}', '{"bookmarks": {"a": {"progress_markers": 5}}}',
        '{"type":"STATE","value":{}}\n{"type":"STATE","value":{}}\n', "\x00", "",
    ],
)  # fmt: skip
def test_a_state_of_the_wrong_shape_is_one_line(two: Lake, tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    done = _tap("--config", json.dumps(config_of(two)), "--state", str(path))
    line = _one_line(done, 2)
    assert line.startswith(f"tap-singerlake: --state {path}")
    assert ("tail -n 1" in line) is (text.count("STATE") > 1)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("state", "strange"),
    [
        ({}, False),
        ({"bookmarks": {}}, False),
        ({"value": WHOLE}, True),
        ({"currently_syncing": "a"}, True),
        ({"bookmarks": {"other": {"transaction": 1}}}, True),
        ({"bookmarks": {"a": {"replication_key_value": "2026"}}}, True),
        ({"bookmarks": {"a": {"transaction": True}}}, True),
    ],
)
def test_a_state_that_says_nothing_here_is_told(
    two: Lake, state: dict[str, Any], strange: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(run(two, state).records()) == 4
    told = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(told) == (1 if strange else 0), told


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "catalog",
    [
        [], [1], 5, None, "catalog.json", {}, {"streams": {}}, {"streams": [1]},
        {"streams": [{}]}, {"streams": [{"tap_stream_id": 5}]},
        {"streams": [{"tap_stream_id": "a", "schema": []}]},
        {"streams": [{"tap_stream_id": "a", "metadata": 3}]},
        {"streams": [{"tap_stream_id": "a", "metadata": [{"breadcrumb": "x", "metadata": {}}]}]},
        {"streams": [{"tap_stream_id": "a", "metadata": [{"breadcrumb": []}]}]},
        {"streams": [{"tap_stream_id": "a", "key_properties": "id"}]},
    ],
)  # fmt: skip
def test_a_catalog_of_the_wrong_shape_is_one_line(two: Lake, tmp_path: Path, catalog: Any) -> None:
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(catalog))
    done = _tap("--config", json.dumps(config_of(two)), "--catalog", str(path))
    line = _one_line(done, 2)
    assert line.startswith(f"tap-singerlake: --catalog {path}: this is not the catalog of a tap")
    assert "--discover" in line
    if isinstance(catalog, dict):
        with pytest.raises(UsageError):
            TapSingerlake(config=config_of(two), catalog=catalog)


@pytest.mark.parametrize("schema", [{"properties": 5}, {"properties": {"id": 5}}, {"type": 5}])
def test_a_catalog_with_an_odd_schema_selects_all_the_same(two: Lake, schema: Any) -> None:
    entries: list[dict[str, Any]] = [
        {"tap_stream_id": "a", "schema": schema, "metadata": None},
        {"tap_stream_id": "b"},
    ]
    assert len(run(two, catalog={"streams": entries}).records()) == 4
