"""The whole road on S3: target, freeze, query, verify, tap; and what each says when S3 refuses."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from singerlake.storage.s3.store import S3Store
from singerlake_cli.main import cli
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, TOKEN
from tests.storage.plugins import s3_settings, start
from tests.storage.relay import Fault, Relay, error_body
from tests.target.harness import TAP, activate, record, schema, state, text

pytestmark = pytest.mark.usefixtures("processes")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ["orders", "größe/%2F x?#&", ".."]


def no_secret(said: str) -> bool:
    return not any(secret in said for secret in (KEY_ID, SECRET, TOKEN))


ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
    "AWS_REGION": "us-east-1",
}
"""The command line takes its settings from the usual chain."""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def run(uri: str, *args: str) -> Result:
    result = CliRunner().invoke(cli, ["--lake", uri, *args])
    assert no_secret(result.output + result.stderr)
    return result


def run_json(uri: str, *args: str) -> Any:
    result = run(uri, "--output", "json", *args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def plugin(
    module: str, folder: Path, config: dict[str, Any], *more: str, data: bytes = b""
) -> list[bytes]:
    process = start(module, folder, config, *more)
    out, err = process.communicate(data, timeout=120)
    assert process.returncode == 0, err.decode()
    assert no_secret(err.decode())
    return out.splitlines()


def test_the_whole_road(
    spark: SparkSession,
    s3_store: S3Store,
    s3_port: int,
    environment: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    uri, config = s3_store.uri, {**s3_settings(s3_port), "lake": s3_store.uri}
    environment.setenv("AWS_ENDPOINT_URL", config["aws_endpoint_url"])
    # A session started by the command itself inherits these; the tests' was there before.
    inherited = {**ENVIRONMENT, "AWS_ENDPOINT_URL": config["aws_endpoint_url"]}
    for name, setting in inherited.items():
        environment.setitem(spark.sparkContext.environment, name, setting)
    lines = {s: [record(s, {"id": n, "x": "1.10"}) for n in range(5)] for s in ODD}
    columns = {"id": {"type": "integer"}, "x": {"type": "string"}}
    sent = [line for s in ODD for line in (schema(s, columns, ["id"]), *lines[s])]
    target = {**config, "tap_id": TAP}
    sent += [activate("orders", 7), state({"n": 1})]
    assert plugin("target_singerlake", tmp_path, target, data=text(sent)) == [b'{"n": 1}']
    more = [schema("orders", columns, ["id"]), record("orders", {"id": 9, "x": "new"}, version=7)]
    plugin("target_singerlake", tmp_path, target, data=text([*more, state({"n": 2})]))

    assert [t["table"] for t in run_json(uri, "ls")] == sorted(f"{TAP}.{s}" for s in ODD)
    assert run_json(uri, "freeze", f"{TAP}.größe/%2F x?#&", "--label", "first")["rows"] == 5
    sql = f"select id, x from `{TAP}`.`größe/%2F x?#&`.first where id > 2 order by id"
    assert run_json(uri, "query", sql)["rows"] == [[3, "1.10"], [4, "1.10"]]
    reports = run_json(uri, "verify", "--all")
    assert len(reports) == len(ODD)
    assert [report["problems"] for report in reports] == [[]] * len(ODD)
    assert sum(report["versions"] for report in reports) == 1

    replayed = plugin("tap_singerlake", tmp_path, config)
    kept = {json.loads(line)["stream"]: [] for line in replayed if b'"RECORD"' in line}
    for line in replayed:
        if json.loads(line)["type"] == "RECORD":
            kept[json.loads(line)["stream"]].append(line)
    assert kept == {**lines, "orders": [*lines["orders"], more[1]]}
    bookmark = tmp_path / "state.json"
    bookmark.write_bytes([line for line in replayed if b'"STATE"' in line][-1])
    value = json.loads(bookmark.read_bytes())["value"]
    bookmark.write_text(json.dumps(value))
    rest = plugin("tap_singerlake", tmp_path, config, "--state", str(bookmark))
    assert not [line for line in rest if b'"RECORD"' in line]


REFUSALS = {
    "access denied": ("AccessDenied", 403, {}, ""),
    "aws_region": (
        "PermanentRedirect",
        301,
        {"x-amz-bucket-region": "eu-west-1"},
        "<Region>eu-west-1</Region>",
    ),
    "credentials have expired": ("ExpiredToken", 400, {}, ""),
    "no bucket": None,
}


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_is_one_plain_line(
    s3_store: S3Store,
    relay: Relay,
    environment: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
) -> None:
    environment.setenv("AWS_ENDPOINT_URL", relay.url)
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    if (refusal := REFUSALS[words]) is None:
        uri = f"s3://nobodys-{uuid.uuid4().hex}/lake"
    else:
        code, status, headers, more = refusal
        for method in ("GET", "PUT", "HEAD", "POST"):
            body = error_body(code, f"{TOKEN} was refused", more)
            relay.fail(Fault(method, status, body, headers), times=100)
    config = {**s3_settings(0), "aws_endpoint_url": relay.url, "lake": uri}
    running = [
        start("target_singerlake", tmp_path, {**config, "tap_id": TAP}),
        start("tap_singerlake", tmp_path, config),
    ]
    result = run(uri, "ls")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert words in line
    sent = text([schema("a"), record("a", {"id": 1}), state(1)])
    for process, data in zip(running, (sent, b""), strict=True):
        said = errors(process, data)
        assert process.returncode == 1, said
        assert no_secret(said)
        assert "Traceback" not in said
        (line,) = [line for line in said.splitlines() if words in line]
        assert line == said.splitlines()[-1]
        assert uri.partition("/lake")[0] in line


def errors(process: subprocess.Popen[bytes], data: bytes) -> str:
    out, err = process.communicate(data, timeout=120)
    assert out == b""
    return err.decode()
