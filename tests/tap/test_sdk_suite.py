"""The SDK's own suite, on a small lake."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from typing import Any

from singer_sdk.testing import SuiteConfig, get_tap_test_class

from singerlake.lake import Lake
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows

# The suite asks for the streams while the tests are collected, before any fixture.
FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
LAKE = Lake.open(f"{FOLDER}/lake", create=True)
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "at": {"type": "string", "format": "date-time"},
    "ok": {"type": ["boolean", "null"]},
    "price": {"type": "number"},
    "who": {"type": "object", "properties": {"name": {"type": "string"}}},
}
commit_rows(
    LAKE,
    "tap_x.orders",
    PROPERTIES,
    ["id"],
    [
        {"id": n, "at": "2026-01-02T03:04:05Z", "ok": True, "price": 1.5, "who": {"name": "x"}}
        for n in range(30)
    ],
    block_rows=4,
)
commit_rows(LAKE, "tap_x.users", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])

TestTapLimited = get_tap_test_class(
    TapSingerlake,
    config={"lake": LAKE.store.uri},
    suite_config=SuiteConfig(max_records_limit=10),
)
TestTapWhole = get_tap_test_class(
    TapSingerlake,
    config={"lake": LAKE.store.uri},
    suite_config=SuiteConfig(max_records_limit=None),
)


def test_the_dry_run_stops_at_its_limit() -> None:
    from singer_sdk.testing.runners import TapTestRunner

    config = {"lake": LAKE.store.uri}
    runner = TapTestRunner(TapSingerlake, config, SuiteConfig(max_records_limit=10))
    runner.sync_all()
    assert len(runner.records["orders"]) == 10
    assert runner.state_messages[-1]["value"]["bookmarks"]["orders"] == {}
    whole = TapTestRunner(TapSingerlake, config, SuiteConfig(max_records_limit=None))
    whole.sync_all()
    assert len(whole.records["orders"]) == 30
    assert whole.state_messages[-1]["value"]["bookmarks"]["orders"]["transaction"] == 1
