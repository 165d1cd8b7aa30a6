"""What a run notes of itself in the lake's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError, UsageError
from singerlake.lake import Lake
from singerlake.log.inventory import take_inventory
from target_singerlake import job
from tests.target.harness import TAP, record, run, schema

ROWS = [schema("s", keys=["id"]), record("s", {"id": 1}), record("s", {"id": 2})]
URL = "https://jobs.example.com/7"
GITHUB = {"GITHUB_RUN_ID": "7", "GITHUB_REPOSITORY": "ada/lake", "GITHUB_WORKFLOW": "nightly"}


def said(lake: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lake / "raw" / "singerlake.json").read_text())
    entry: dict[str, Any] = found["taps"][TAP]
    return entry


def test_a_run_without_a_job_notes_nothing(tmp_path: Path) -> None:
    run(tmp_path / "lake", ROWS)
    assert said(tmp_path / "lake") == {}


def test_a_run_with_a_job_notes_how_it_ended(tmp_path: Path) -> None:
    run(tmp_path / "lake", ROWS, job_url=URL)
    noted = said(tmp_path / "lake")["last_run"]
    assert noted.pop("time").endswith("Z")
    assert noted == {"outcome": "succeeded", "rows": 2, "tables": 1, "url": URL}
    with pytest.raises(InputError):
        run(tmp_path / "lake", [*ROWS, b"{"], job_url=URL)
    noted = said(tmp_path / "lake")["last_run"]
    assert noted["outcome"] == "failed"
    assert "rows" not in noted


def test_a_first_run_that_fails_makes_no_lake(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run(tmp_path / "lake", [b"{"], job_url=URL)
    assert not (tmp_path / "lake" / "raw").exists()


@pytest.mark.parametrize("config", [{"job_url": URL}, {"annotations": {"owner": "ada"}}])
def test_a_first_run_that_brings_nothing_names_no_tap(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    run(tmp_path / "other", ROWS)
    run(tmp_path / "other", b"", tap_id="tap-empty", **config)
    lake = Lake.open(str(tmp_path / "other"))
    assert set(lake.annotations().taps) == {TAP}
    assert take_inventory(lake.store, lake.tables()).lost == []
    run(tmp_path / "lake", b"", **config)
    assert not (tmp_path / "lake" / "raw").exists()


def test_settings_say_what_annotate_says(tmp_path: Path) -> None:
    annotations = {"owner": "ada", "tables": {"s": {"columns": {"id": {"tags": ["key"]}}}}}
    run(tmp_path / "lake", ROWS, annotations=annotations)
    assert said(tmp_path / "lake") == annotations
    before = (tmp_path / "lake" / "raw" / "singerlake.json").stat().st_mtime_ns
    run(tmp_path / "lake", ROWS, annotations=annotations)
    assert (tmp_path / "lake" / "raw" / "singerlake.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "config",
    [{"annotations": {"ownr": "x"}}, {"annotations": {"owner": 7}}, {"job_url": "javascript:x"}],
)
def test_wrong_settings_end_the_run_before_it_takes_a_record(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=next(iter(config))):
        run(tmp_path / "lake", ROWS, **config)
    assert not (tmp_path / "lake" / "raw").exists()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (
            GITHUB,
            job.Job("https://github.com/ada/lake/actions/runs/7", "nightly", "GitHub Actions"),
        ),
        (
            {**GITHUB, "GITHUB_SERVER_URL": "https://git.example.com/"},
            job.Job("https://git.example.com/ada/lake/actions/runs/7", "nightly", "GitHub Actions"),
        ),
        (
            {
                "AIRFLOW_CTX_DAG_ID": "shop",
                "AIRFLOW_CTX_TASK_ID": "sync",
                "AIRFLOW_CTX_DAG_RUN_ID": "manual__2026-01-02T00:00:00+00:00",
                "AIRFLOW__API__BASE_URL": "https://air.example.com/",
            },
            job.Job(
                "https://air.example.com/dags/shop/runs/manual__2026-01-02T00%3A00%3A00%2B00%3A00",
                "shop.sync",
                "Airflow",
            ),
        ),
        (
            {
                "AIRFLOW_CTX_DAG_ID": "shop",
                "AIRFLOW_CTX_DAG_RUN_ID": "r 1",
                "AIRFLOW__WEBSERVER__BASE_URL": "https://air.example.com",
            },
            job.Job("https://air.example.com/dags/shop/grid?dag_run_id=r+1", "shop", "Airflow"),
        ),
        ({"AIRFLOW_CTX_DAG_ID": "shop"}, job.Job(None, "shop", "Airflow")),
        (
            {"DAGSTER_RUN_ID": "abc", "DAGSTER_WEBSERVER_URL": "http://localhost:3000"},
            job.Job("http://localhost:3000/runs/abc", None, "Dagster"),
        ),
        (
            {"DAGSTER_RUN_ID": "abc", "DAGSTER_WEBSERVER_URL": "javascript:x"},
            job.Job(None, None, "Dagster"),
        ),
    ],
)
def test_schedulers_tell_of_the_job(environment: dict[str, str], expected: job.Job | None) -> None:
    assert job.find(None, environment) == expected


def test_the_setting_wins_over_the_scheduler() -> None:
    assert job.find(URL, GITHUB) == job.Job(URL, "nightly", "GitHub Actions")
