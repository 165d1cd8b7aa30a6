"""From a location to a store: what is almost a URI makes no folder of its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.errors import UsageError
from singerlake.storage.local.store import LocalStore
from singerlake.storage.opening import in_project, open_store
from singerlake_cli.main import cli
from tap_singerlake.tap import TapSingerlake
from tests.target.harness import run, schema

ALMOST = [
    ("s3:/bucket/lake", "did you mean s3://bucket/lake?"),
    ("s3:bucket/lake", "did you mean s3://bucket/lake?"),
    ("s3//bucket/lake", "did you mean s3://bucket/lake?"),
    ("s3:///bucket", "s3://bucket/prefix"),
    ("S3://bucket/lake", "did you mean s3://bucket/lake?"),
    ("s3a://bucket/lake", "did you mean s3://bucket/lake?"),
    ("r2://bucket/lake", "s3://bucket/lake, with your account's R2 endpoint"),
    ("gs:/bucket/lake", "did you mean gs://bucket/lake?"),
    ("gs:bucket/lake", "did you mean gs://bucket/lake?"),
    ("GS://bucket/lake", "did you mean gs://bucket/lake?"),
    ("gcs://bucket/lake", "did you mean gs://bucket/lake?"),
    ("gs:///bucket", "gs://bucket/prefix"),
    ("az//container/lake", "did you mean az://container/lake?"),
    ("azure://container/lake", "did you mean az://container/lake?"),
    ("az://Con_tainer/lake", "az://container/prefix"),
    ("https://bucket.s3.eu-west-1.amazonaws.com/lake", "did you mean s3://bucket/lake?"),
    ("https://example.com/lake", "no store for https://"),
    ("abfss://c@account.dfs.example.com/x", "or az://container/prefix"),
    ("abfs://container@ourlake/lake", "abfs://container@account.dfs.core.windows.net/prefix"),
    ("abfss://c@acct.dfs.core.windows.net/lake?sig=hunter2", "or az://container/prefix"),
    ("https://acct.blob.core.windows.net/c/lake?sv=1&sig=hunter2", "as azure_storage_sas_token"),
    ("https://acct.blob.core.windows.net/c/lake?sv=1&sig=hunter2", "did you mean az://c/lake,"),
    ("az://container/lake?sv=2020&sig=hunter2", "credentials belong in the settings"),
    ("gs://bucket/a//b?x=hunter2", "credentials belong in the settings"),
    ("s3://bucket/lake?X-Amz-Expires=9&X-Amz-Signature=hunter2", "belong in the settings"),
    ("hdfs:/lake", "no store for hdfs://"),
    ("file:/tmp/lake", "did you mean file:///tmp/lake?"),
    ("file://tmp/lake", "did you mean file:///tmp/lake?"),
]


@pytest.mark.parametrize(("uri", "meant"), ALMOST)
def test_what_is_almost_a_uri_is_refused_with_what_was_meant(uri: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_store(uri)
    assert meant in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_password_in_a_uri_is_not_repeated() -> None:
    with pytest.raises(UsageError) as raised:
        open_store("s3:/key:hunter2hunter2@bucket/lake")
    assert "hunter2" not in str(raised.value)


def test_a_prefix_on_s3_may_hold_a_question_mark() -> None:
    """Lakes of such names were made, and stay open."""
    assert open_store("s3://bucket/lake?x=1").uri == "s3://bucket/lake?x=1"


@pytest.mark.parametrize("path", ["lake", "./s3:/lake", "C:/lake", "a:b", "folder/s3:/x"])
def test_folders_of_odd_names_are_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(path)
    assert isinstance(store, LocalStore)
    assert store.root == tmp_path / path
    assert open_store(f"file://{tmp_path}/a%20b").uri == f"{tmp_path}/a b"


def test_a_project_does_not_hide_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MELTANO_PROJECT_ROOT", "/project")
    assert in_project("s3:/bucket/lake") == "s3:/bucket/lake"
    assert in_project("lake") == "/project/lake"


def test_command_line_plugins_and_environment_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="s3://bucket/lake"):
        run(Path("s3:/bucket/lake"), [schema("a", {"id": {"type": "integer"}}, ["id"])])
    with pytest.raises(UsageError, match="s3://bucket/lake"):
        TapSingerlake(config={"lake": "s3:/bucket/lake"}).discover_streams()
    monkeypatch.setenv("SINGERLAKE_LAKE", "s3:/bucket/lake")
    with pytest.raises(UsageError, match="s3://bucket/lake"):
        TapSingerlake(config={}).discover_streams()
    result = CliRunner().invoke(cli, ["ls"])
    assert result.exit_code == UsageError.exit_code
    assert "s3://bucket/lake" in result.output
    assert list(tmp_path.iterdir()) == []
