"""A table without a key that comes whole with every sync is told of, and no other is."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.lake import Lake
from singerlake.log import head_file, repeats
from singerlake_cli.main import cli
from tests.target.harness import TAP, activate, record, run, schema

LINE = "no key: 16,670 rows after 5 syncs of 3,334"


def _sync(lake: Path, rows: int, keys: list[str] | None = None, **more: Any) -> None:
    head = json.loads(schema("s", keys=keys)) | more.pop("message", {})
    lines = [json.dumps(head).encode(), *(record("s", {"id": n}) for n in range(rows))]
    run(lake, [*lines, *more.pop("end", [])], **more)


def _ls(lake: Path) -> tuple[str, Any]:
    text = CliRunner().invoke(cli, ["--lake", str(lake), "ls"]).stdout
    told = CliRunner().invoke(cli, ["--lake", str(lake), "--output", "json", "ls"]).stdout
    return " ".join(text.split()), json.loads(told)[0]["repeats"]


def test_the_run_and_ls_say_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _sync(tmp_path, 3334)
    assert "no key" not in caplog.text
    assert _ls(tmp_path)[1] is None
    for _ in range(4):
        caplog.clear()
        _sync(tmp_path, 3334)
    [told] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told.startswith(f"{TAP}.s: {LINE}. If each sync brings the whole table")
    for way in ("key_properties", "only what is new", "ACTIVATE_VERSION"):
        assert way in told
    text, fields = _ls(tmp_path)
    assert f"{TAP}.s: {LINE}; if each brings the whole table" in text
    assert fields == {"rows": 16670, "syncs": 5, "last": 3334, "even": True}


def test_a_table_that_grows_a_little_is_told_of_and_a_long_run_is_one_sync(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _sync(tmp_path, 100)
    lines = [schema("s")]
    for n in range(110):
        lines += [record("s", {"id": n}), b'{"type":"STATE","value":1}']
    run(tmp_path, lines, commit_bytes=2000)
    assert "no key: 210 rows after 2 syncs of about 110" in caplog.text


def test_a_log_whose_past_cannot_be_read_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_file, "SMALL_BYTES", 0)
    _sync(tmp_path, 10)
    _sync(tmp_path, 10)
    table = Lake.open(str(tmp_path)).find(f"{TAP}.s")[0]
    for key in (table.name.manifest, table.name.transaction(1)):
        (tmp_path / key).chmod(0o644)
        (tmp_path / key).write_bytes(b"damaged")
    caplog.clear()
    caplog.set_level(logging.INFO)
    _sync(tmp_path, 10)
    assert "no key" not in caplog.text
    assert f"{TAP}.s: what earlier syncs brought cannot be read" in caplog.text
    assert '"number":3' in (tmp_path / table.name.transaction(3)).read_text().replace(" ", "")


def test_where_the_tap_brings_only_what_is_new_no_past_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(repeats, "find", asked.append)
    _sync(tmp_path, 10, message={"bookmark_properties": ["id"]})
    assert asked == []
    _sync(tmp_path, 10)
    assert len(asked) == 1


@pytest.mark.parametrize(
    "syncs",
    [
        [{"rows": 50, "keys": ["id"]}] * 3,
        [{"rows": 500}, {"rows": 20}, {"rows": 20}, {"rows": 20}],
        [{"rows": 50}, {"rows": 0}, {"rows": 0}],
        [{"rows": 50, "end": [activate("s", 1)]}] * 3,
        [{"rows": 50}],
    ],
    ids=["a key", "what is new", "nothing new", "replaced by version", "once"],
)
def test_no_other_is_told_of(
    tmp_path: Path, syncs: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    for sync in syncs:
        _sync(tmp_path, **sync)
    assert "no key" not in caplog.text
    text, fields = _ls(tmp_path)
    assert "no key" not in text
    assert fields is None


@pytest.mark.parametrize("keys", [["at"], "at", [], None, 5])
def test_a_tap_that_goes_by_a_replication_key_is_never_accused(
    tmp_path: Path, keys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        _sync(tmp_path, 50, message={"bookmark_properties": keys})
    assert ("no key" in caplog.text) is (keys in ([], None))


def test_a_key_that_comes_later_takes_the_repeats_away(tmp_path: Path) -> None:
    """The first of the three ways out mends what is there as well."""
    for keys in (None, None, ["id"]):
        _sync(tmp_path, 50, keys)
    assert _ls(tmp_path)[1] is None
    config = {"stream_maps": {"s": {"__key_properties__": ["id"]}}}
    other = tmp_path / "mapped"
    for _ in range(2):
        _sync(other, 50, **config)
    assert _ls(other)[1] is None
