"""A lake on S3."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.storage.s3.store import S3Store
from tests.build import commit_rows
from tests.storage.conftest import KEY_ID, SECRET, TOKEN, s3_port, s3_store
from tests.tap.run import run

__all__ = ["s3_port", "s3_store"]

INT = {"id": {"type": "integer"}}


def test_a_lake_on_s3(s3_store: S3Store, s3_port: int, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(s3_store)
    commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": n} for n in range(50)], block_rows=2)
    settings: dict[str, Any] = {
        "aws_access_key_id": KEY_ID,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "aws_region": "us-east-1",
        "aws_endpoint_url": f"http://127.0.0.1:{s3_port}",
    }
    with caplog.at_level(logging.DEBUG, logger="tap-singerlake"):
        first = run(lake, **settings)
    assert [r["id"] for r in first.records()] == list(range(50))
    commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": 50}])
    assert run(lake, first.state, **settings).records() == [{"id": 50}]
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text
