"""`singerlake shell`, as a script and as typed at a terminal."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from singerlake.engine.spark.jvm import launch
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake_cli import interrupts, shared
from singerlake_cli.main import cli
from singerlake_cli.shell import editing
from singerlake_cli.shell.editing import Completer
from tests.build import commit_rows
from tests.cli.call import run
from tests.needs import MORE

PROPERTIES = {"id": {"type": "integer"}}
PATIENCE = 120.0


@pytest.fixture
def shop(lake: Lake) -> Lake:
    rows = [{"id": n} for n in range(1, 2001)]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [*rows])
    return lake


def test_a_script_ends_at_the_first_command_that_fails(shop: Lake) -> None:
    script = "history tap-shop.orders\nshow tap-shop.nothing\nls\n"
    done = run(shop, "shell", input=script)
    assert done.exit_code == 3
    assert "2,000" in done.stdout
    assert "last sync" not in done.stdout
    assert done.stderr.endswith(
        "note: the shell ends at line 2: the following commands are not run (--keep-going runs "
        "them)\n"
    )


def test_with_keep_going_all_is_run_and_the_first_failure_counts(shop: Lake) -> None:
    script = "show tap-shop.nothing\nhistroy\nls 'tap-shop\nexit\nls"
    done = run(shop, "shell", "--keep-going", input=script)
    assert done.exit_code == 3
    assert "Did you mean history?" in done.stderr
    assert "a quote is never closed" in done.stderr
    for line, code in ((1, 3), (2, 2), (3, 2)):
        assert f"note: line {line} failed, with exit code {code}\n" in done.stderr
    done = run(shop, "shell", "--keep-going", input="ls 'tap-shop\nls\n")
    assert done.exit_code == 2
    assert "last sync" in done.stdout
    done = run(shop, "shell", "--keep-going", input="nope\nls\nexit\nshow tap-shop.orders\n")
    assert done.exit_code == 2
    assert "last sync" in done.stdout
    assert "key" not in done.stdout


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 7\nls", 7), ("nope\nexit 0\nls", 0), ("nope\nexit\nls", 2), ("exit", 0), ("exit x", 2)],
)
def test_a_script_may_give_its_exit_code(shop: Lake, script: str, code: int) -> None:
    done = run(shop, "shell", "--keep-going", input=script)
    assert (done.exit_code, "last sync" in done.stdout) == (code, False)


@pytest.mark.parametrize("command", ["query -f -", "erase --search --texts-from -"])
def test_the_script_itself_is_no_input_of_a_command(shop: Lake, command: str) -> None:
    done = run(shop, "shell", input=f"{command}\n")
    assert done.exit_code == 2
    assert "this shell reads its commands from standard input" in done.stderr


def test_lake_and_output_are_given_once(shop: Lake, tmp_path: Path) -> None:
    done = run(shop, "--output", "json", "shell", input=f"ls\nls --lake {tmp_path}/none\n")
    assert done.exit_code == 3
    assert [one["table"] for one in json.loads(done.stdout)] == ["tap-shop.orders"]
    assert json.loads(done.stderr.splitlines()[0])["error"]["kind"] == "not_found"
    done = run(shop, "shell", "--output", "json", input="ls\nls --output table")
    assert json.JSONDecoder().raw_decode(done.stdout)[0]
    assert "last sync" in done.stdout


@pytest.mark.usefixtures("processes")
def test_a_command_does_not_read_the_commands_after_it(shop: Lake) -> None:
    done = subprocess.run(  # click's runner has an input of its own
        [sys.executable, "-m", "singerlake_cli", "--lake", shop.store.uri, "shell", "--keep-going"],
        input="drop tap-shop.orders\ny\nls\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert "Drop tap-shop.orders" in done.stderr
    assert "no answer on standard input: add --yes in scripts" in done.stderr
    assert "No such command 'y'" in done.stderr
    assert "tap-shop.orders" in done.stdout


def test_a_shell_in_a_shell_is_refused(shop: Lake) -> None:
    done = run(shop, "shell", input="shell\n")
    assert (done.exit_code, "this is a shell already" in done.stderr) == (2, True)
    assert not interrupts.in_shell()


def test_what_is_no_text_is_said(shop: Lake) -> None:
    done = run(shop, "shell", input=b"ls\n\xff\n")
    assert (done.exit_code, "not UTF-8 text" in done.stderr) == (2, True)


def test_other_settings_than_those_spark_runs_with_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = launch.Launch(("local[1]", {}), Path(), {})
    monkeypatch.setattr(launch, "_taken", [begun])
    monkeypatch.setattr(launch, "ahead", lambda *_: None)
    shared.begin_spark("local[2]", ())  # by itself, a command may
    with interrupts.in_a_shell(goes_on=False):
        shared.begin_spark(None, ())
        shared.begin_spark("local[1]", ())
        for other in ((None, ("spark.x=1",)), ("local[2]", ())):
            with pytest.raises(UsageError, match="Spark is already running in this shell, with"):
                shared.begin_spark(*other)


@pytest.mark.usefixtures("each_operation")
def test_queries_as_commands_and_as_sql(shop: Lake) -> None:
    script = (
        'query "select count(*) as n from tap_shop.orders" --format csv\n'
        "select max(id) as m\nfrom tap_shop.orders;\n"
        "select nope from tap_shop.orders;\n"
    )
    done = run(shop, "shell", input=script)
    assert done.exit_code == 2
    assert done.stdout.startswith("n\n2000\n")
    assert " 2000\n" in done.stdout.partition("m\n")[2]
    assert "there is no column `nope`" in done.stderr
    assert "the shell ends at line 4" in done.stderr


@pytest.fixture
def completer(shop: Lake) -> Completer:
    root = click.Context(cli)
    root.params["uri"] = shop.store.uri
    return Completer(root, ["--lake", shop.store.uri, "--output", "table"])


@pytest.mark.parametrize(
    ("before", "text", "found"),
    [
        ("", "ver", ["verify", "versions"]),
        ("", "e", ["erase", "exit"]),
        ("singerlake ", "fr", ["freeze"]),
        ("freeze ", "tap-s", ["tap-shop.orders"]),
        ("freeze ", "--la", ["--label", "--lake"]),
        ("help ", "fr", ["freeze"]),
        ("select * from ", "tap", ["tap_shop.orders"]),
        ("select * from ", "tap_sh", ["tap_shop.orders"]),
        ("query 'select ", "tap", []),
    ],
)
def test_commands_options_and_tables_are_completed(
    completer: Completer, before: str, text: str, found: list[str]
) -> None:
    assert completer.completions(before, text) == found


def test_files_are_completed(completer: Completer, tmp_path: Path) -> None:
    (tmp_path / "report.sql").touch()
    (tmp_path / "reports").mkdir()
    found = completer.completions("query --file ", f"{tmp_path}/rep")
    assert found == [f"{tmp_path}/report.sql", f"{tmp_path}/reports/"]


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, lake: Lake, home: Path) -> None:
        pid, self._fd = pty.fork()
        if pid == 0:  # pragma: no cover  # another process
            os.environ |= {"SINGERLAKE_LAKE": lake.store.uri, "XDG_STATE_HOME": str(home)}
            os.environ |= {"TERM": "xterm", "COLUMNS": "120", "TMPDIR": str(home)}
            os.environ |= {"AWS_SECRET_ACCESS_KEY": "hidden-and-long-enough"}
            os.execv(sys.executable, [sys.executable, "-m", "singerlake_cli", "shell"])
        self.pid = pid
        self.shown = ""
        self._text = codecs.getincrementaldecoder("utf-8")("replace")  # Ctrl-C may cut a letter

    def until(self, text: str) -> str:
        """Read until a text is shown; return what came before it since the last call."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if not select.select([self._fd], [], [], 0.5)[0]:
                continue
            with suppress(OSError):
                if piece := os.read(self._fd, 1 << 16):
                    self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._text.decode(piece))
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, as late as a person would: readline misses one that comes as it begins."""
        time.sleep(0.5)
        self.type("\x03")

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(processes: None, shop: Lake, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(shop, tmp_path)
    yield made
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)


def test_at_a_terminal_nothing_but_its_end_ends_it(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until(editing.PROMPT)
    terminal.type("histroy\n")
    assert "Did you mean history?" in terminal.until(editing.PROMPT)
    terminal.type("freeze tap-shop.or")
    terminal.interrupt()  # leaves the line
    terminal.until(editing.PROMPT)
    terminal.type("his\ttap-\t\n")
    assert "2,000" in terminal.until(editing.PROMPT)
    terminal.type("query 'select\n")
    terminal.until(editing.MORE)
    terminal.interrupt()
    terminal.until(editing.PROMPT)
    terminal.type("show x --lake s3://u:hidden-and-long-enough@x/y\n")
    terminal.until(editing.PROMPT)
    terminal.type("\x04")
    assert terminal.end() == 0
    history = tmp_path / "singerlake" / "history"
    assert history.read_text().splitlines() == [
        "histroy",
        "history tap-shop.orders ",
        "query 'select",
    ]
    assert history.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_a_query_and_not_the_shell(terminal: Terminal) -> None:
    pairs = "from tap_shop.orders a cross join tap_shop.orders b cross join tap_shop.orders c"
    terminal.until(editing.PROMPT)
    terminal.type("select count(*) as n from tap_shop.orders;\n")
    assert " 2000" in terminal.until(editing.PROMPT)
    java = children(terminal.pid)
    terminal.type("ls\n")  # what asks nothing of Java leaves it be
    terminal.until(editing.PROMPT)
    terminal.type(f"select count(*) {pairs} where a.id * b.id * c.id % 7 = 3;\n")
    time.sleep(3)
    terminal.interrupt()
    assert interrupts.READ in terminal.until(editing.PROMPT)
    assert not java & children(terminal.pid)
    terminal.type("select max(id) + 1 as n from tap_shop.orders;\n")
    assert " 2001" in terminal.until(editing.PROMPT)
    terminal.type("exit\n")
    assert terminal.end() == 0


@MORE
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_shell_starts_java_again_after_it_was_killed(terminal: Terminal) -> None:
    terminal.until(editing.PROMPT)
    terminal.type("select cast(count(*) as int) as n from tap_shop.orders;\n")
    assert " 2000" in terminal.until(editing.PROMPT)
    (pid,) = children(terminal.pid)
    os.kill(pid, signal.SIGKILL)  # as the system does where memory runs out
    while " Z " not in Path(f"/proc/{pid}/stat").read_text():
        time.sleep(0.05)
    terminal.type("select 1;\n")
    assert "Java" in terminal.until(editing.PROMPT)
    terminal.type("select 40 + 2 as n;\n")
    assert " 42" in terminal.until(editing.PROMPT)
    terminal.type("exit\n")
    assert terminal.end() == 0


def children(pid: int) -> set[int]:
    """The processes that one has started and that still run."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(word) for word in text.split()}
