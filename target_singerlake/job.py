"""Which job a run belongs to, and a note of how it ended in the lake's file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import times
from singerlake.format.annotations import JobRun
from singerlake.lake import Lake

if TYPE_CHECKING:  # annotations are imported where they are used: most runs have none to make
    from singerlake.annotations.changes import Change

SUCCEEDED, FAILED = "succeeded", "failed"


@dataclass(frozen=True)
class Job:
    """Where a run is seen.

    Attributes:
        url: The scheduler's page of it.
        name: The job's name there.
        scheduler: What started it.
    """

    url: str | None = None
    name: str | None = None
    scheduler: str | None = None


def find(url: str | None, environment: Mapping[str, str]) -> Job | None:
    """The job that the setting ``job_url`` names, or that a scheduler's variables tell of.

    Raises:
        UsageError: The setting is no URL.
    """
    known = _airflow(environment) or _dagster(environment) or _github(environment)
    if url:
        from singerlake.annotations.fields import checked

        address = checked("job_url", url, "this run")
        name, scheduler = (known.name, known.scheduler) if known else (None, None)
        return Job(str(address), name, scheduler)
    return known


def _airflow(environment: Mapping[str, str]) -> Job | None:
    dag, run = (environment.get(f"AIRFLOW_CTX_{name}") for name in ("DAG_ID", "DAG_RUN_ID"))
    if not dag:
        return None
    name = ".".join(filter(None, (dag, environment.get("AIRFLOW_CTX_TASK_ID"))))
    url = None
    if run and (base := environment.get("AIRFLOW__API__BASE_URL")):  # Airflow 3
        url = f"{base.rstrip('/')}/dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"
    elif run and (base := environment.get("AIRFLOW__WEBSERVER__BASE_URL")):
        query = urlencode({"dag_run_id": run})
        url = f"{base.rstrip('/')}/dags/{quote(dag, safe='')}/grid?{query}"
    return Job(_link(url), name, "Airflow")


def _dagster(environment: Mapping[str, str]) -> Job | None:
    run = environment.get("DAGSTER_RUN_ID")
    if not run:
        return None
    base = environment.get("DAGSTER_WEBSERVER_URL") or environment.get("DAGSTER_CLOUD_URL")
    url = f"{base.rstrip('/')}/runs/{quote(run, safe='')}" if base else None
    return Job(_link(url), environment.get("DAGSTER_RUN_JOB_NAME"), "Dagster")


def _github(environment: Mapping[str, str]) -> Job | None:
    run, repository = (environment.get(f"GITHUB_{name}") for name in ("RUN_ID", "REPOSITORY"))
    if not run or not repository:
        return None
    server = environment.get("GITHUB_SERVER_URL") or "https://github.com"
    url = f"{server.rstrip('/')}/{quote(repository)}/actions/runs/{quote(run, safe='')}"
    return Job(_link(url), environment.get("GITHUB_WORKFLOW"), "GitHub Actions")


def _link(url: str | None) -> str | None:
    """A URL that a variable gave; what is none must not end a run that works."""
    if not url:
        return None
    from singerlake.annotations.fields import is_url

    return url if is_url(url) else None


def changes_in_settings(setting: Any, tap: str) -> list[Change]:
    """The changes that the setting ``annotations`` asks for.

    Raises:
        UsageError: It says what cannot be said.
    """
    if not setting:
        return []
    from singerlake.annotations import document
    from singerlake.annotations.subjects import Subject

    try:
        return document.changes(setting, Subject(tap))
    except UsageError as error:
        raise UsageError(f"annotations: {error}") from error


class Report:
    """Notes in the lake's file how a run ended, once; without a job only what people say.

    Args:
        tap: Whose streams the run brings.
        job: Where the run is seen.
        configured: What the settings say of the tap.
        logger: For what could not be noted.
    """

    def __init__(
        self, tap: str, job: Job | None, configured: list[Change], logger: logging.Logger
    ) -> None:
        self._tap = tap
        self._job = job
        self._configured = configured
        self._logger = logger
        self._done = False

    def note(self, lake: Lake, outcome: str, rows: int, tables: int) -> None:
        """Note it. Never raises: what the run committed is committed."""
        if self._done or (self._job is None and not self._configured):
            return
        self._done = True
        if not tables and self._tap not in lake.annotations().taps:
            return  # nothing of the tap is there, maybe not even a lake: an entry would be a lie
        from singerlake.annotations import changes

        try:
            if self._job is None:
                if outcome == SUCCEEDED:
                    changes.annotate(lake, self._configured)
                return
            run = JobRun(
                time=times.iso(times.now()),
                outcome=outcome,
                rows=rows,
                tables=tables,
                url=self._job.url,
                job=self._job.name,
                scheduler=self._job.scheduler,
            )
            configured = self._configured if outcome == SUCCEEDED else []
            changes.record_run(lake, self._tap, run, configured)
        except SingerlakeError as error:
            self._logger.warning(
                "cannot record in raw/singerlake.json how this run ended: %s; what was committed "
                "stays committed",
                error,
            )
