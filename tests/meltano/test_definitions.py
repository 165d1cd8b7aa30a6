"""What Meltano and its Hub are told is what the plugins say of themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.storage.options import SECRETS
from tests.build import commit_rows
from tests.cli import call
from tests.meltano import definitions
from tests.meltano.project import ORDERS


def test_meltano_yml_is_what_about_says() -> None:
    text = definitions.MELTANO.read_text("utf-8")
    assert text == definitions.filled(text), "run: python -m tests.meltano.definitions"


def test_the_hubs_definitions_are_what_about_says() -> None:
    wanted = definitions.hub()
    found = {str(p.relative_to(definitions.HUB)) for p in definitions.HUB.rglob("*.yml")}
    assert found == set(wanted)
    for path, text in wanted.items():
        message = "run: python -m tests.meltano.definitions"
        assert (definitions.HUB / path).read_text("utf-8") == text, message


def test_every_setting_is_described_and_secrets_are_sensitive() -> None:
    for text in definitions.hub().values():
        settings = yaml.safe_load(text)["settings"]
        assert all(one["kind"] and one["label"] and one["description"] for one in settings)
        sensitive = {one["name"] for one in settings if one.get("sensitive")}
        assert sensitive - {"on_event", "batch_s3"} == SECRETS  # which may hold a token


BEHIND = {
    "show": [str(ORDERS)],
    "history": [str(ORDERS)],
    "freeze": [str(ORDERS)],
    "query": ["select count(*) from tap_shop.orders"],
    "publish": ["few"],
    "copy": ["lake", "copied"],
    "revert": [str(ORDERS), "--to-transaction", "1"],
    "verify": [str(ORDERS)],
    "vacuum": [str(ORDERS)],
}
"""What some commands need besides, which ``meltano invoke`` passes on."""
ALL_COMMANDS = {**definitions.COMMANDS, **definitions.OF_THE_PROJECT}
ON_SPARK = {"query", "publish", "publish-all", "freeze-published", "freeze-all"}
FEW = """\
version: 1
destinations:
  here: {uri: out}
projections:
- {name: few, from: tap_shop.orders, destination: here, format: csv, versions: true}
"""


@pytest.mark.parametrize("name", sorted(ALL_COMMANDS.keys() - ON_SPARK))
def test_every_command_of_the_utility_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _runs(tmp_path, monkeypatch, name)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_every_command_of_the_utility_runs_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _runs(tmp_path, monkeypatch, name)


def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake.open("lake", create=True)
    commit_rows(lake, str(ORDERS), {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    Path("projections.yml").write_text(FEW)
    args, description = ALL_COMMANDS[name]
    words = args.split()
    if name in BEHIND:
        alone = call.run("lake", *words)
        assert alone.exit_code == UsageError.exit_code, alone.output
    done = call.run("lake", *words, *BEHIND.get(name, []))
    assert done.exit_code == 0, done.output
    assert (name in BEHIND) == ("behind" in description)


def test_a_nightly_schedule_vacuums_the_lake() -> None:
    project = yaml.safe_load(definitions.MELTANO.read_text("utf-8"))
    jobs = {job["name"]: job["tasks"] for job in project["jobs"]}
    schedules = {one["name"]: (jobs[one["job"]], one["interval"]) for one in project["schedules"]}
    assert schedules["nightly-vacuum"] == (["singerlake:vacuum-all"], "30 2 * * *")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("state", "records", "last"),
    [
        (None, 100, "2026-03-02T06:00:00Z"),
        ("2026-03-02T06:00:00Z", 41, "2026-03-03T06:00:00Z"),
        ("2026-03-03T06:00:00Z", 0, "2026-03-03T06:00:00Z"),
    ],
)
def test_the_example_tap_brings_a_day_a_run(
    tmp_path: Path, state: str | None, records: int, last: str
) -> None:
    args: list[str] = []
    if state is not None:
        path = tmp_path / "state.json"
        path.write_text(json.dumps({"bookmarks": {"orders": {"updated_at": state}}}))
        args = ["--state", str(path)]
    tap = definitions.ROOT / "examples" / "tap-shop"
    done = subprocess.run([sys.executable, tap, *args], capture_output=True, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [m["type"] for m in messages] == ["SCHEMA", *["RECORD"] * records, "STATE"]
    assert messages[-1]["value"]["bookmarks"]["orders"]["updated_at"] == last
