"""The settings that tap and target share are read alike by both."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from singer_sdk import typing as th

from singerlake.lake import Lake
from singerlake.plugins import settings
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions, from_settings
from tap_singerlake.tap import TapSingerlake
from target_singerlake.settings import RUN_ID_VARIABLES, metadata
from target_singerlake.target import TargetSingerlake
from tests.target.harness import TAP, record, run, schema

LINES = [schema("a"), record("a", {"id": 1})]
SHARED = [prop.name for prop in (settings.LAKE, *settings.STORES)]


def test_both_have_the_same_settings_of_lake_and_stores() -> None:
    tap, target = (p.config_jsonschema["properties"] for p in (TapSingerlake, TargetSingerlake))
    assert {n: tap[n] for n in SHARED} == {n: target[n] for n in SHARED}


@pytest.mark.usefixtures("services")
def test_an_empty_setting_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    texts = [
        prop.name for prop in (settings.LAKE, *settings.STORES) if prop.wrapped == th.StringType
    ]
    empty = dict.fromkeys(texts, "")
    assert settings.lake_uri(empty) == "./lake"
    assert from_settings(empty) == StoreOptions()
    opened = open_store("s3://bucket/lake", from_settings({**empty, "aws_region": "x"}))
    assert opened.uri == "s3://bucket/lake"
    monkeypatch.chdir(tmp_path)
    sync = TargetSingerlake(config={"tap_id": TAP, **empty})
    sync.listen(io.StringIO("".join(line.decode() + "\n" for line in LINES)))
    assert list(TapSingerlake(config=empty).streams) == ["a"]


@pytest.fixture
def no_run(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in RUN_ID_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_run_id_comes_from_the_orchestrator(no_run: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert metadata({}) == {}
    no_run.setenv("AIRFLOW_CTX_DAG_RUN_ID", "scheduled__2026-11-22")
    run(tmp_path / "lake", LINES)
    table, _ = Lake.open(str(tmp_path / "lake")).find(f"{TAP}.a")
    [entry] = table.entries()
    assert entry.metadata == {"run_id": "scheduled__2026-11-22"}


def test_the_setting_wins_over_the_orchestrator(no_run: pytest.MonkeyPatch) -> None:
    no_run.setenv("GITHUB_RUN_ID", "17")
    assert metadata({"metadata": {"run_id": "mine"}}) == {"run_id": "mine"}
    assert metadata({"metadata": {"note": "x"}}) == {"run_id": "17", "note": "x"}
    no_run.setenv("MELTANO_RUN_ID", "")
    assert metadata({}) == {"run_id": "17"}
    no_run.setenv("MELTANO_RUN_ID", "m")
    assert metadata({}) == {"run_id": "m"}
