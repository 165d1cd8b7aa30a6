"""What the command says, and what it is told of the two ends."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.storage.local.store import LocalStore
from singerlake.storage.options import StoreOptions, of_an_end
from singerlake_cli.main import cli
from tests.ops.copy.world import AGAIN, combine, copy, delete, opens, problems, write


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(LocalStore(tmp_path / "lake"))
    write(lake, 1, 2, 3)
    write(lake, 4, table="tap-test.u")
    return lake


def size(stream: str, tmp_path: Path) -> int:
    (file,) = (tmp_path / "lake/raw/tap-test" / stream).rglob("*.singer.gz")
    return file.stat().st_size


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_it_says_what_it_does(lake: Lake, tmp_path: Path) -> None:
    source, backup = lake.store.uri, str(tmp_path / "backup")
    t, u = size("t", tmp_path), size("u", tmp_path)
    planned = call("copy", source, backup, "--dry-run")
    assert f"2 tables: 2 files, {t + u} B would be copied" in planned.stdout
    assert planned.exit_code == 0
    assert not Path(backup).exists()
    first = call("copy", source, backup)
    assert first.stdout.splitlines() == [
        f"tap-test.t at transaction 1: 1 transaction, 1 file, {t} B copied",
        f"tap-test.u at transaction 1: 1 transaction, 1 file, {u} B copied",
        f"2 tables: 2 files, {t + u} B copied",
    ]
    again = call("copy", source, backup, "tap_test.t", "--verify")
    assert again.stdout == ("tap-test.t at transaction 1: 1 file read again, no problems found\n")
    assert call("copy", source, backup, "tap-test.t").stdout.endswith(": up to date\n")
    assert "tap-test.u" in call("--lake", backup, "ls").stdout


def test_for_programs(lake: Lake, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")
    write(Lake(LocalStore(Path(backup))), 9)
    result = call("--output", "json", "copy", lake.store.uri, backup)
    assert result.exit_code == 4
    assert json.loads(result.stdout) == [
        {
            "table": "tap-test.u",
            "versions": [],
            "transaction": 1,
            "transactions": 1,
            "files": 1,
            "bytes": size("u", tmp_path),
            "deleted_files": 0,
            "kept_files": 0,
            "verified_files": 0,
            "rebuilt_transactions": [],
            "rebuilt_at_source": [],
            "dropped": False,
            "dry_run": False,
        }
    ]
    error = json.loads(result.stderr)
    assert error["error"]["kind"] == "conflict" and "no longer a copy" in error["error"]["message"]
    assert opens(LocalStore(Path(backup))) == [9]


def test_exit_codes(lake: Lake, tmp_path: Path) -> None:
    source, backup = lake.store.uri, str(tmp_path / "backup")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"")
    for code, args in (
        (3, (str(tmp_path / "none"), backup)),
        (3, (source, backup, "tap-test.none")),
        (3, (source, backup, "tap-test.t.1")),
        (2, (source, str(tmp_path / "photos"))),
        (2, (source, source)),
        (2, (source, backup, "tap-test.t.1", "--sync")),
        (2, (source, backup, "--destination-setting", "aws_secret_access_key=x")),
        (2, (source, backup, "--source-setting", "nonsense=x")),
        (2, (source, backup, "--source-setting", "aws_region")),
    ):
        assert call("copy", *args).exit_code == code, args
        assert not Path(backup).exists()


def test_a_stream_whose_name_ends_like_a_version_is_followed(lake: Lake, tmp_path: Path) -> None:
    write(lake, 5, table="tap-test.x.1")
    for _ in range(2):
        result = call("copy", lake.store.uri, str(tmp_path / "b"), "tap-test.`x.1`", "--sync")
        assert result.exit_code == 0, result.output
    assert opens(LocalStore(tmp_path / "b"), "tap-test.x.1") == [5]


def test_each_end_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINGERLAKE_AWS_PROFILE", "all")
    assert of_an_end("FROM", {}) == of_an_end("TO", {}) == StoreOptions(profile="all")
    monkeypatch.setenv("SINGERLAKE_TO_AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("SINGERLAKE_TO_AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SINGERLAKE_TO_AWS_REGION", "")
    to = of_an_end("TO", {"aws_region": "eu-west-1"})
    assert to == StoreOptions("id", "secret", region="eu-west-1")
    assert of_an_end("FROM", {}) == StoreOptions(profile="all")
    assert of_an_end("FROM", {"aws_profile": "x"}) == StoreOptions(profile="x")
    with pytest.raises(UsageError, match="SINGERLAKE_FROM_AWS_SESSION_TOKEN") as told:
        of_an_end("FROM", {"aws_session_token": "hush"})
    assert "hush" not in str(told.value)


def test_what_the_source_has_lost_is_told(lake: Lake, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")
    shutil.rmtree(Path(lake.store.uri, "raw/tap-test/u"))
    result = call("copy", lake.store.uri, backup)
    assert result.exit_code == 5 and "tap-test.u is missing" in result.stderr
    assert result.stdout.splitlines()[-1].endswith("; 1 table failed")
    assert opens(LocalStore(Path(backup))) == [1, 2, 3]


def test_what_would_be_deleted_is_told(lake: Lake, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")
    write(lake, 5)
    assert call("copy", lake.store.uri, backup).exit_code == 0
    combine(lake)
    delete(lake)
    planned = call("copy", lake.store.uri, backup, "tap-test.t", "--sync", "--dry-run")
    assert planned.stdout.endswith("would be copied; 2 files would be deleted\n")


SLOW = """
import sys, time
from singerlake.ops.copy import transfers
from singerlake.storage.local.store import LocalStore
from singerlake_cli.main import main
transfers.PIECE = 4
read = LocalStore.get_range
def slow(self, *args):
    time.sleep(0.05)
    return read(self, *args)
LocalStore.get_range = slow
main(["copy", *sys.argv[1:]])
"""


def has_bytes(folder: Path) -> bool:
    """Whether a file in a folder has some; those that go meanwhile have none."""
    with suppress(FileNotFoundError):
        return any(one.stat().st_size for one in folder.glob("*"))
    return False


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_copy_that_is_stopped_is_gone_on_with(
    lake: Lake, tmp_path: Path, sent: int, code: int
) -> None:
    source, backup = lake.store.uri, LocalStore(tmp_path / "backup")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, source, backup.uri],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not has_bytes(Path(backup.uri, ".staging")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(sent)
    _, said = process.communicate(timeout=30)  # both files would take six seconds more
    assert process.returncode == code
    assert said == ("error: interrupted; what was done before stays\n" if code > 0 else "")
    assert [*Path(backup.uri).glob("raw/*/*/transactions/*")] == []
    copy(lake.store, backup, options=AGAIN)
    assert opens(backup) == [1, 2, 3] and problems(backup) == []
