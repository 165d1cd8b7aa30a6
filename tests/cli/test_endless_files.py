"""Options that read a file whole: not one without an end, and pipes as far as they have one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake import small_files
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.plugins.arguments import read_settings
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows
from tests.cli.call import run

ZERO = "/dev/zero"
COMMANDS = {
    "erase --search --texts-from": ["erase", "--search", "--texts-from", ZERO],
    "erase --from": ["erase", "t.s", "--reason", "r", "--from", ZERO],
    "erase --unblock --from": ["erase", "t.s", "--unblock", "--from", ZERO],
    "query --file": ["query", "--file", ZERO],
    "annotate --from": ["annotate", "--from", ZERO],
    "publish --projections": ["publish", "--all", "--projections", ZERO],
    "projections --projections": ["projections", "--projections", ZERO],
    "unpublish --projections": ["unpublish", "few", "--projections", ZERO],
    "freeze --publish --projections": ["freeze", "t.s", "--publish", "--projections", ZERO],
}
pytestmark = pytest.mark.skipif(not Path(ZERO).exists(), reason="there is no /dev/zero here")


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for read in (small_files.read, small_files.read_open):
        monkeypatch.setattr(read, "__defaults__", (10_000,))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_without_an_end_is_refused(tmp_path: Path, name: str) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    done = run(lake, *COMMANDS[name])
    assert done.exit_code == UsageError.exit_code, done.output
    assert f"{ZERO} has more than " in done.output, done.output


def test_settings_states_and_catalogs_have_an_end() -> None:
    with pytest.raises(UsageError, match="--config /dev/zero has more than|/dev/zero has more"):
        read_settings([ZERO], ["lake"])
    for option in ("state", "catalog"):
        with (
            Path(ZERO).open() as file,
            pytest.raises(UsageError, match=f"--{option} /dev/zero has more"),
        ):
            TapSingerlake.invoke(**{option: file})


@pytest.mark.parametrize("size", [9_999, 10_000, 10_001])
def test_a_pipe_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as file:
            file.write(b"x" * size)

    writer = threading.Thread(target=write)
    writer.start()
    reading: Callable[[], bytes] = lambda: small_files.read(pipe, "words")  # noqa: E731
    if size > 10_000:
        with pytest.raises(UsageError, match=r"pipe has more than 10\.0 kB: these are no words"):
            reading()
    else:
        assert reading() == b"x" * size
    writer.join()


@pytest.mark.parametrize(
    "args",
    [["erase", "--search", "--texts-from", "-"], ["query", "--file", "-"]],
    ids=["erase", "query"],
)
def test_standard_input_has_an_end(tmp_path: Path, args: list[str]) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "t.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    done = run(lake, *args, input="x" * 10_001)
    assert done.exit_code == UsageError.exit_code
    assert "standard input has more than 10.0 kB: these are no " in done.output
