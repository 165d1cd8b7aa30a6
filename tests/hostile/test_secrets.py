"""Planted secrets that must come out nowhere: no command, no plugin, no level of its log."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from singer_sdk.logging import StructuredFormatter

from singerlake import safe_text
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.plugins.arguments import check_secrets
from singerlake.safe_text import for_people, redacted
from singerlake.storage.s3.store import S3Store
from singerlake_cli.main import COMMANDS, cli
from tests.build import commit_rows
from tests.storage.conftest import (
    BUCKET,
    KEY_ID,
    SECRET,
    TOKEN,
    no_aws_settings,
    s3_port,
    s3_store,
)

__all__ = ["no_aws_settings", "s3_port", "s3_store"]
PASSWORD = "planted-pa55w0rd"
SLASHED = "planted/pa55?w0rd"
WORDS = [KEY_ID, SECRET, TOKEN, PASSWORD, SLASHED]
BIN = Path(sys.executable).parent
MESSAGES = (
    b'{"type": "SCHEMA", "stream": "s", "schema": {"properties": {"id": {"type": "integer"}}}}\n'
    b'{"type": "RECORD", "stream": "s", "record": {"id": 1}}\n'
    b'{"type": "STATE", "value": {"a": 1}}\n'
)
ARGUMENTS = {
    "create-table": ["t.new", "select * from t.s"],
    "demo": ["--help"],
    "completion": ["bash"],
    "doctor": [],
    "locks": [],
    "ls": ["--sizes"],
    "metrics": ["--sizes"],
    "query": ["select 1 from t.s"],
    "rebuild": ["--all"],
    "revert": ["t.s", "--to", "1"],
    "rows": ["t.s", "--key", "1"],
    "unlock": ["t.s", "--yes"],
    "vacuum": ["--all"],
    "verify": ["--all"],
}
"""Of every command that does not just take a table's name."""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test planted must not help the next."""
    monkeypatch.setattr(safe_text, "_secrets", set())
    monkeypatch.setattr(safe_text, "_pattern", None)


def clean(said: str) -> bool:
    return not any(word in said for word in WORDS)


def planted(port: int, **more: str) -> dict[str, str]:
    """An environment with every secret, and an endpoint with a password in it."""
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://user:{PASSWORD}@127.0.0.1:{port}",
        **more,
    }


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_tells(
    monkeypatch: pytest.MonkeyPatch, s3_store: S3Store, s3_port: int, name: str, form: str
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    for key, value in planted(1).items():  # nobody listens there
        monkeypatch.setenv(key, value)
    for uri in (s3_store.uri, f"s3://{KEY_ID}:{SECRET}@{BUCKET}/x", f"https://u:{PASSWORD}@x/"):
        args = ["--lake", uri, "--output", form, name, *ARGUMENTS.get(name, ["t.s"])]
        result = CliRunner().invoke(cli, args)
        assert clean(result.output), result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize("password", [PASSWORD, SLASHED])
@pytest.mark.parametrize("form", ["table", "json"])
def test_doctor_names_an_endpoint_without_its_password(
    monkeypatch: pytest.MonkeyPatch, s3_store: S3Store, s3_port: int, form: str, password: str
) -> None:
    endpoint = f"http://user:{password}@127.0.0.1:{s3_port}"
    for key, value in planted(s3_port, AWS_ENDPOINT_URL=endpoint).items():
        monkeypatch.setenv(key, value)
    result = CliRunner().invoke(cli, ["--lake", s3_store.uri, "--output", form, "doctor"])
    assert clean(result.output), result.output
    assert "***" in result.output


@pytest.mark.usefixtures("processes")
def test_a_traceback_tells_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from singerlake_cli import main\n"
        "from singerlake_cli.commands import ls\n"
        "def broken(uri, options=None, create=False):\n"
        "    raise ValueError('the secret is ' + 'wJalrXUtnFEMI-' + 'secret-bPxRfiCY')\n"
        "main.Lake = None\n"
        "from singerlake.lake import Lake\n"
        "Lake.open = broken\n"
        "main.main(['ls'])\n"
    )
    for debug in ("", "1"):
        env = {**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET, "SINGERLAKE_DEBUG": debug}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
        )
        assert done.returncode == 1
        assert "the secret is ***" in done.stderr
        assert ("Traceback" in done.stderr) == bool(debug)
        assert clean(done.stderr)


def run_plugin(
    plugin: str, config: dict[str, Any] | None, folder: Path, **env: str
) -> subprocess.CompletedProcess[bytes]:
    path = folder / "config.json"
    if config is not None:
        path.write_text(json.dumps(config))
    return subprocess.run(
        [BIN / plugin, "--config", str(path) if config is not None else "ENV"],
        input=MESSAGES,
        capture_output=True,
        env={**os.environ, **env},
        check=False,
        timeout=120,
    )


LOG_FILE = """
version: 1
disable_existing_loggers: false
formatters:
  plain: {{format: "%(message)s"}}
  structured: {{"()": singer_sdk.logging.StructuredFormatter}}
handlers:
  file: {{class: logging.FileHandler, filename: "{file}", formatter: plain}}
  screen: {{class: logging.StreamHandler, formatter: structured, stream: "ext://sys.stderr"}}
root: {{level: DEBUG, handlers: [file, screen]}}
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("source", ["settings", "environment", "log file"])
@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_no_plugin_tells_at_any_level(
    s3_store: S3Store, s3_port: int, tmp_path: Path, source: str, level: str
) -> None:
    config = {
        "lake": s3_store.uri,
        "tap_id": "t",
        "aws_access_key_id": KEY_ID,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "aws_region": "us-east-1",
        "aws_endpoint_url": f"http://127.0.0.1:{s3_port}",
    }
    env = {"LOGLEVEL": level}
    if source == "environment":
        config = {"lake": s3_store.uri, "tap_id": "t"}
        env |= planted(s3_port, AWS_ENDPOINT_URL=f"http://127.0.0.1:{s3_port}")
    log = tmp_path / "log"
    if source == "log file":
        (tmp_path / "logging.yaml").write_text(LOG_FILE.format(file=log))
        env["SINGER_SDK_LOG_CONFIG"] = str(tmp_path / "logging.yaml")
    for plugin in ("target-singerlake", "tap-singerlake"):
        done = run_plugin(plugin, config, tmp_path, **env)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, said[-2000:]
        assert clean(said)
        if level == "DEBUG":
            assert "botocore" in said
            assert "***" in said
    if source == "log file":
        assert "***" in log.read_text()
        assert clean(log.read_text())


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("plugin", ["target-singerlake", "tap-singerlake"])
@pytest.mark.parametrize("value", [123, ["planted-word"], {"a": "planted-word"}])
def test_a_secret_of_the_wrong_type_is_not_repeated(
    tmp_path: Path, plugin: str, value: Any
) -> None:
    name = "aws_secret_access_key"
    done = run_plugin(plugin, {"lake": str(tmp_path), "tap_id": "t", name: value}, tmp_path)
    said = re.sub(r"^[\d-]+ [\d:,]+", "", done.stderr.decode(), flags=re.M)  # the time of it
    assert done.returncode == 2
    assert f"{name} is not text: set it again, in quotes" in said
    assert "Traceback" not in said
    assert "123" not in said
    assert "planted" not in said


@pytest.mark.parametrize("name", safe_text.SECRET_SETTINGS)
@pytest.mark.parametrize("value", [4711.25, True, ["planted-word"], {"a": "planted-word"}])
def test_each_secret_must_be_text(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        check_secrets({name: value})
    assert str(caught.value) == f"{name} is not text: set it again, in quotes"
    assert redacted("a 4711.25 or planted-word").count("***") == (value is not True)
    check_secrets({name: None, "lake": 1})


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("plugin", ["target-singerlake", "tap-singerlake"])
def test_a_plugin_does_not_repeat_an_endpoints_password(tmp_path: Path, plugin: str) -> None:
    config = {"lake": "s3://lakes/x", "tap_id": "t", "aws_endpoint_url": f"http://u:{PASSWORD}@x"}
    for level in ("DEBUG", "INFO"):
        done = run_plugin(plugin, config, tmp_path, LOGLEVEL=level)
        assert done.returncode == 2
        assert "must not hold a user or password" in done.stderr.decode()
        assert clean(done.stderr.decode())


@pytest.mark.usefixtures("processes")
def test_a_plugin_steers_no_terminal(tmp_path: Path) -> None:
    name = "s\x1b]0;owned\x07\u202e"
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, f"t.{name}", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    bad = json.dumps({"type": "RECORD", "stream": name, "record": {}}).encode() + b"\n"
    config = {"lake": lake.store.uri, "tap_id": "t", "streams": [f"no{name}"]}
    (tmp_path / "c").write_text(json.dumps(config))
    for plugin in ("target-singerlake", "tap-singerlake"):
        done = subprocess.run(
            [BIN / plugin, "--config", tmp_path / "c"],
            input=bad, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode != 0
        assert b"owned" in done.stderr
        assert not any(char in done.stderr for char in (b"\x1b", b"\x07", "\u202e".encode()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@host/path", "https://***@host/path"),
        ("at 'http://u:p%40w@h:9000', x", "at 'http://***@h:9000', x"),
        ("https://host/a@b", "https://host/a@b"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi=", "AWS_SECRET_ACCESS_KEY=***"),
        ("{'aws_session_token': 'abc', 'x': 1}", "{'aws_session_token': '***', 'x': 1}"),
        ('{"SecretAccessKey" : "abc"}', '{"SecretAccessKey" : "***"}'),
        ("{'X-Amz-Security-Token': b'abc=='}", "{'X-Amz-Security-Token': b'***'}"),
        ("x-amz-security-token:abc\nhost:h", "x-amz-security-token:***\nhost:h"),
        ("<SessionToken>abc</SessionToken>", "<SessionToken>***</SessionToken>"),
        ("?X-Amz-Credential=abc/20&X-Amz-Date=1", "?X-Amz-Credential=***&X-Amz-Date=1"),
        ("?X-Amz-Signature=0a", "?X-Amz-Signature=***"),
        ("?sv=2024&sig=a%2Fb&se=1", "?sv=2024&sig=***&se=1"),
        ("AccountName=a;AccountKey=b+/c==;x=y", "AccountName=a;AccountKey=***;x=y"),
        ("azure_client_secret: 'a b'", "azure_client_secret: '***'"),
        ('{"private_key": "a\\nb", "x": 1}', '{"private_key": "***", "x": 1}'),
        ("SINGERLAKE_GCS_TOKEN=ya29.a", "SINGERLAKE_GCS_TOKEN=***"),
        ("azure_storage_account_key is not Base64: copy it again", None),
        ('{"password": "two words", "x": "y"}', '{"password": "***", "x": "y"}'),
        ("{'password': 'a\\'b c', 'x': 1}", "{'password': '***', 'x': 1}"),
        (r'"{\"password\": \"two words\", \"x\": 1}"', r'"{\"password\": \"***\", \"x\": 1}"'),
        ('password="never closed', 'password="*** closed'),
        ("<Signature>two words</Signature>", "<Signature>***</Signature>"),
        ("9p+x://u:pw@host", "9p+x://***@host"),
        ("-https://u:pw@host", "-https://***@host"),
        ("http://u:p/w@host/x", "http://***@host/x"),
        ("http://host:9000/a@b", None),
        ("http://host:9000?a@b", None),
        ("http://[::1]:9000/a@b", None),
        ("aws_access_key_id and aws_secret_access_key go together: set both", None),
        ("check aws_session_token, and that it belongs to this endpoint", None),
        ("aws_secret_access_key is empty, or has a space in it: set it again", None),
        ("it has id, password", None),
    ],
)  # fmt: skip
def test_secrets_are_known_by_their_names(text: str, shown: str | None) -> None:
    assert redacted(text) == (text if shown is None else shown)


def test_secrets_that_are_known_are_hidden_wherever_they_stand() -> None:
    safe_text.remember_secrets(
        ["abcd+/==", "abcd+/==longer", "xyz", None, True, {"a": ["deep-one"]}]
    )
    assert redacted("(abcd+/==longer) abcd%2B%2F%3D%3D xyz deep-one") == "(***) *** xyz ***"
    assert for_people("abcd+/==\nline") == "***\\nline"


def test_a_secret_is_hidden_in_each_form_of_a_url() -> None:
    safe_text.remember_secrets(["planted/one+two three"])
    for form in ("planted%2Fone%2Btwo%20three", "planted/one%2Btwo%20three",
                 "planted%2Fone%2Btwo+three", "planted/one+two three"):  # fmt: skip
        assert redacted(f"x{form}x") == "x***x"


def test_a_short_secret_is_hidden_where_it_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "orders")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    safe_text.remember_environment()
    check_secrets({"aws_access_key_id": "minio", "aws_secret_access_key": "test"})
    whole = "tap-test.orders, test-tap, latest, testing, test.orders of minio"
    assert redacted(whole) == whole
    assert redacted("the key 'test', test/x (test) and test.") == (
        "the key '***', ***/x (***) and ***."
    )
    check_secrets({"aws_access_key_id": KEY_ID})
    assert redacted(f"x{KEY_ID}x") == "x***x"


@pytest.mark.parametrize("piece", ["a", "a.", "password=", 'password="', "a://b:c", "://", "=a '"])
def test_a_long_text_takes_no_longer_than_its_parts(piece: str) -> None:
    def seconds(count: int) -> float:
        text = piece * (count // len(piece))
        began = time.process_time()
        redacted(text)
        return time.process_time() - began

    assert seconds(80_000) < 40 * min(seconds(8_000) for _ in range(3)) + 0.05


HIDDEN_FROM = """
import sys, threading, warnings
from singerlake import safe_text
safe_text.{guard}()
word = "wJalrXUtnFEMI-" + "secret-bPxRfiCY"
def broken():
    raise ValueError("in a thread " + word)
thread = threading.Thread(target=broken)
thread.start()
thread.join()
warnings.warn("a warning of " + word)
class Gone:
    def __del__(self):
        raise ValueError("in a collector " + word)
del (gone := [Gone()])[0]
if {lines}:
    sys.stderr.writelines(["lines of ", word, "\\n"])
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("guard", ["guard_logs", "guard_stderr"])
def test_threads_warnings_and_collectors_tell_nothing(guard: str) -> None:
    code = HIDDEN_FROM.format(guard=guard, lines=guard == "guard_stderr")
    env = {**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    for said in ("in a thread ***", "a warning of ***", "in a collector ***"):
        assert said in done.stderr
    assert ("lines of ***" in done.stderr) == (guard == "guard_stderr")
    assert clean(done.stderr)


def test_a_structured_log_tells_nothing_of_an_error_or_its_cause() -> None:
    safe_text.remember_secrets([SECRET])
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise ValueError(f"it is {SECRET}") from cause
    except ValueError:
        record = safe_text._SafeRecord("a", 40, "b", 1, "said", (), sys.exc_info())
    said = StructuredFormatter().format(record)
    found = json.loads(said)["exception"]
    assert (found["type"], found["message"]) == ("ValueError", "it is ***")
    assert found["cause"]["type"] == "KeyError"
    assert found["traceback"]
    assert clean(said)


def test_records_of_every_logger_are_guarded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = logging.getLogRecordFactory()
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.formatwarning
    try:
        safe_text.guard_logs()
        safe_text.remember_secrets([SECRET])
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("any").exception("%s \x1b %s", SECRET, "x")
    finally:
        logging.setLogRecordFactory(before)
        sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.formatwarning = hooks
    assert "*** \\x1b x" in caplog.text
    assert "ValueError: ***" in caplog.text
    assert SECRET not in caplog.text


PARTS = """aws_ access private sas_ x-amz- _ - id = : ' " \\ > </ https:// u:pa55 @ K ſ x 1 [ / ?"""
PIECES = st.sampled_from([*safe_text._WORDS, *PARTS.split(), " ", "\n"])


@pytest.mark.usefixtures("many_cases")
@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=30))
def test_what_a_quick_look_passes_over_has_no_secret(text: str) -> None:
    whole = safe_text._userinfo().sub(rf"\1{safe_text.HIDDEN}@", text)
    whole = safe_text._named().sub(safe_text._hidden, whole)
    assert redacted(text) == whole


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=30))
def test_a_text_that_stays_as_it_is_has_nothing_that_a_terminal_obeys(text: str) -> None:
    for kept, arguments in (("", {}), ("\n", {"lines": True}), ("\n\t", {"spaces": True})):
        assert safe_text.visible(text, **arguments) == text.translate(safe_text._escapes_but(kept))
