"""The SDK's own tests for targets, and its stream files that no suite runs."""

from __future__ import annotations

import importlib.resources
import json
import tempfile
from typing import Any

import pytest
from singer_sdk.testing import get_target_test_class, target_test_streams
from singer_sdk.testing.suites import target_tests

from target_singerlake.errors import InvalidRecordError
from target_singerlake.target import TargetSingerlake
from tests.target.harness import records_of, run

_FOLDER = tempfile.TemporaryDirectory(prefix="singerlake-suite-")
SdkSuite = get_target_test_class(
    TargetSingerlake, config={"lake": _FOLDER.name, "tap_id": "tap-suite"}
)


class TestSdkSuite(SdkSuite):  # type: ignore[misc, valid-type]
    """Every test that the SDK's suite has.

    Except for one: ``{"type": "object"}`` is a stream's schema here, as ``properties: {}`` is.
    """

    test_target_invalid_schema = None


def test_the_suite_is_not_empty() -> None:
    ours = {name for name in dir(TestSdkSuite) if name.startswith("test_target_")}
    assert {f"test_target_{test.name}" for test in target_tests.tests} <= ours
    assert len(ours) >= 16


def stream_file(name: str) -> bytes:
    return (importlib.resources.files(target_test_streams) / f"{name}.singer").read_bytes()


STREAM_FILES = sorted(
    entry.name.removesuffix(".singer")
    for entry in importlib.resources.files(target_test_streams).iterdir()
    if entry.name.endswith(".singer")
)
REFUSED = {
    "invalid_schema",
    "record_before_schema",
    "record_missing_key_property",
    "record_missing_required_property",
}


@pytest.mark.parametrize("name", [n for n in STREAM_FILES if n not in REFUSED])
def test_what_landed_is_what_went_in(name: str, tmp_path: Any) -> None:
    data = stream_file(name)
    messages = [json.loads(line) for line in data.splitlines() if line.strip()]
    states = run(tmp_path / "lake", data)
    streams = {m["stream"] for m in messages if m["type"] == "SCHEMA"}
    assert streams
    for stream in streams:
        sent = [m["record"] for m in messages if m["type"] == "RECORD" and m["stream"] == stream]
        assert records_of(tmp_path / "lake", stream) == sent
    sent_states = [m["value"] for m in messages if m["type"] == "STATE"]
    assert states == sent_states[-1:]


def test_every_state_goes_out_where_each_one_commits(tmp_path: Any) -> None:
    data = stream_file("multiple_state_messages")
    messages = [json.loads(line) for line in data.splitlines()]
    sent = [m["value"] for m in messages if m["type"] == "STATE"]
    assert len(sent) > 1
    assert run(tmp_path / "lake", data, commit_minutes=0) == sent


def test_a_missing_required_property_is_refused_unless_validation_is_off(tmp_path: Any) -> None:
    data = stream_file("record_missing_required_property")
    with pytest.raises(InvalidRecordError, match="required"):
        run(tmp_path / "lake", data)
    run(tmp_path / "lenient", data, validate_records=False)
    assert len(list((tmp_path / "lenient").rglob("*.singer.gz"))) == 1
