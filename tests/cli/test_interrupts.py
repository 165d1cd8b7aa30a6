"""Ctrl-C as a terminal sends it: to the whole process group, at several moments."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import commit
from singerlake_cli import interrupts, live_line
from tests.build import commit_rows

# As the installed script does. With -m CPython ends a process by SIGINT, whatever the code that it
# exits with, if the interrupt came while a string was executed, as dataclasses do at import.
PROGRAM = [sys.executable, "-c", "from singerlake_cli.__main__ import main; main()"]
ROOT = Path(__file__).parents[2]
SAID = f"error: {interrupts.NOTHING}"
PAIRS = "from tap.s a cross join tap.s b"
SLOW = f"select count(*) {PAIRS} cross join tap.s c where a.id * b.id * c.id % 7 = 3"
PATIENCE = 120.0
TABLE = TableName("tap", "s")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    rows = [{"id": number} for number in range(3000)]
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [*rows])
    return lake


def interrupted(
    lake: Lake, folder: Path, ready: Callable[[Path], bool], *args: str
) -> tuple[int, str]:
    """Start a command, send its group SIGINT once it is ready, give its exit code and stderr."""
    temporary, out, err = folder / "tmp", folder / "out", folder / "err"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "SINGERLAKE_LAKE": lake.store.uri}
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [*PROGRAM, *args],
            stdout=stdout,
            stderr=stderr,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    try:
        while not ready(folder):
            assert process.poll() is None, err.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    while javas(temporary):  # killed, and gone as soon as the system gets to it
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert list(temporary.iterdir()) == []
    return code, err.read_text()


def javas(temporary: Path) -> list[Path]:
    """The processes that were told to put their files there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(temporary).encode() in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


def java_starts(folder: Path) -> bool:
    return bool(javas(folder / "tmp"))


def rows_stream(folder: Path) -> bool:
    return (folder / "out").stat().st_size > 0


def job_runs(folder: Path) -> bool:
    """The index is made before the query itself begins, which takes minutes."""
    if not list(folder.glob("lake/index/tap/s/1/_index.json")):
        return False
    time.sleep(1)
    return True


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("ready", "args", "said"),
    [
        (
            java_starts,
            ["upload", "tap.s", "rows.csv", "--engine", "spark"],
            interrupts.NOTHING,
        ),
        (job_runs, ["delete", "tap.s", "--where", f"id in ({SLOW})"], interrupts.NOTHING),
        (
            rows_stream,
            ["query", f"select a.id, b.id as other {PAIRS}", "--format", "csv"],
            interrupts.READ,
        ),
    ],
)
def test_one_line_and_130(
    filled: Lake, tmp_path: Path, ready: Callable[[Path], bool], args: list[str], said: str
) -> None:
    args = [str(tmp_path / word) if word == "rows.csv" else word for word in args]
    (tmp_path / "rows.csv").write_text("id\n7\n")
    assert interrupted(filled, tmp_path, ready, *args) == (130, f"error: {said}\n")
    assert [entry.number for entry in filled.table(TABLE).entries()] == [1]


STARTS = """
import os, signal, subprocess, sys
from pathlib import Path
from singerlake.engine.spark.jvm import java, launch, session

start = subprocess.Popen

def interrupted(*args, **settings):
    process = start(*args, **settings)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    return process

java.subprocess.Popen = interrupted
if "ahead" in sys.argv:
    launch.ahead()
else:
    session.session()
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("how", ["ahead", "session"])
def test_a_java_that_has_just_been_started_ends(tmp_path: Path, how: str) -> None:
    """It would go on to write into a folder that the exit had deleted."""
    done = subprocess.run(
        [sys.executable, "-c", STARTS, how],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr.endswith("KeyboardInterrupt\n"), done.stderr
    assert not Path("/proc", done.stdout.strip()).exists()
    assert list(tmp_path.iterdir()) == []


def run(code: str, *, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run Python in which a command interrupts itself."""
    text = (
        "import os, signal, sys, time, click\n"
        "from singerlake_cli import main\n"
        "def kill(): os.kill(os.getpid(), signal.SIGINT)\n"
        f"{code}\n"
        "main.COMMANDS = {'it': 'it'}\n"
        "main.NOT_SHARED = {'it'}\n"
        "sys.modules['singerlake_cli.commands.it'] = type(sys)('it')\n"
        "sys.modules['singerlake_cli.commands.it'].command = click.command('it')(it)\n"
        "main.main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", text]
    return subprocess.run(
        [*command, *(["--output", "json", "it"] if "json" in code else ["it"])],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.usefixtures("processes")
def test_in_python_alone() -> None:
    done = run("def it(): kill(); time.sleep(60)")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_a_command_that_only_reads_says_nothing_of_changes() -> None:
    note = "from singerlake_cli import interrupts; interrupts.note_reads()"
    done = run(f"def it():\n    {note}\n    kill(); time.sleep(60)\n")
    assert (done.returncode, done.stderr) == (130, f"error: {interrupts.READ}\n")


@pytest.mark.usefixtures("processes")
def test_for_scripts_it_is_json() -> None:
    done = run("def it(): kill(); time.sleep(60)  # json")
    error = {"kind": "interrupted", "message": interrupts.NOTHING}
    assert (done.returncode, json.loads(done.stderr)) == (130, {"error": error})


@pytest.mark.usefixtures("processes")
def test_on_a_terminal_the_line_is_one_of_its_own() -> None:
    ours, theirs = pty.openpty()
    done = run("def it(): kill(); time.sleep(60)", stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 130
    assert shown.startswith("\r\n")  # behind ^C
    assert interrupts.NOTHING in shown


@pytest.mark.usefixtures("processes")
def test_spark_cannot_take_it_for_itself() -> None:
    code = (
        "from singerlake_cli import interrupts\n"
        "def theirs(*_): print('Spark cancels', flush=True)\n"
        "def it():\n"
        "    with interrupts.kept(): signal.signal(signal.SIGINT, theirs)\n"
        "    signal.signal(signal.SIGTERM, theirs)\n"
        "    kill(); time.sleep(60)\n"
    )
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_where_it_is_ignored_spark_does_not_take_it_either() -> None:
    """As it is for jobs in a script's background, which go on."""
    code = (
        "from singerlake_cli import interrupts\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "def theirs(*_): print('Spark cancels', flush=True)\n"
        "def it():\n"
        "    with interrupts.kept(): signal.signal(signal.SIGINT, theirs)\n"
        "    kill(); print('goes on')\n"
    )
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "before",
    [
        "from singerlake.log import commit; commit.CommitMark.any = True",
        "from singerlake_cli import interrupts; interrupts.note_writes()",
    ],
)
def test_what_may_have_changed_is_not_denied(before: str) -> None:
    done = run(f"def it():\n    {before}\n    kill(); time.sleep(60)\n")
    assert (done.returncode, done.stderr) == (130, f"error: {interrupts.SOMETHING}\n")


def test_only_a_commit_counts_as_one(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit.CommitMark, "any", False)
    # A command that an earlier test ran in this process may have noted that it writes.
    monkeypatch.setattr(interrupts._State, "writes", False)
    monkeypatch.setattr(interrupts._State, "reads", False)
    filled.table(TABLE).snapshot()
    assert interrupts.message() == interrupts.NOTHING
    commit_rows(filled, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    assert interrupts.message() == interrupts.SOMETHING


@pytest.mark.usefixtures("processes")
def test_an_error_that_the_interrupt_leads_to_is_not_what_is_said() -> None:
    code = (
        "def it():\n"
        "    try: kill(); time.sleep(60)\n"
        "    finally: raise ValueError('Java hung up')\n"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (130, f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_one_that_comes_in_a_finalizer_is_not_lost() -> None:
    code = (
        "class Late:\n"
        "    def __del__(self): kill(); time.sleep(0.1)\n"
        "def it():\n"
        "    late = Late(); del late\n"
        "    time.sleep(30)\n"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (130, f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_one_that_comes_again_too_early_is_not_lost() -> None:
    """On a busy machine Python has not left the finalizer by then."""
    code = (
        "import threading\n"
        "start = threading.Timer.start\n"
        "def slow(timer): threading.Timer.start = start; start(timer); time.sleep(0.2)\n"
        "threading.Timer.start = slow\n"
        "class Late:\n"
        "    def __del__(self): kill(); time.sleep(0.1)\n"
        "def it():\n"
        "    late = Late(); del late\n"
        "    time.sleep(30)\n"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (130, f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_a_second_ends_a_clean_up_that_takes_long() -> None:
    code = "def it():\n    try: kill(); time.sleep(60)\n    finally: kill(); time.sleep(60)\n"
    done = run(code)
    assert (done.returncode, done.stderr) == (130, f"{SAID}\n")


@pytest.mark.usefixtures("processes")
def test_nothing_is_left_of_a_bar_before_the_line() -> None:
    ours, theirs = pty.openpty()
    code = """
from singerlake_cli import working
def it():
    with working.working("freezing"):
        time.sleep(1)
        kill()
        time.sleep(60)
"""
    done = run(code, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 130
    assert "freezing" in shown
    last = click.unstyle(shown.rpartition(live_line.ERASE)[2])
    assert last == f"error: {interrupts.NOTHING}\r\n"
