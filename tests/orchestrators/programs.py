"""What the examples find on their PATH, with `singerlake` answered by this process.

A freeze of its own would start Java each time; here is a session that all of them use.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake_cli.main import cli

ROOT = Path(__file__).parents[2]
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect({address!r})
    asked = {{"args": sys.argv[1:], "folder": os.getcwd(), "environment": {{**os.environ}}}}
    there.sendall(json.dumps(asked).encode())
    there.shutdown(socket.SHUT_WR)
    out, err, code = json.loads(b"".join(iter(lambda: there.recv(65536), b"")))
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Programs:
    """A folder of programs, and the listener behind one of them."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        target = Path(sys.executable).parent / "target-singerlake"
        (self.bin / "target-singerlake").symlink_to(target)
        shutil.copy(ROOT / "examples" / "tap-shop", self.bin)
        # The path of a socket may have no more than a hundred characters.
        self._short = tempfile.TemporaryDirectory()
        address = f"{self._short.name}/singerlake"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._listener.settimeout(0.02)
        self.add("singerlake", _CLIENT.format(python=sys.executable, address=address))

    def close(self) -> None:
        self._listener.close()
        self._short.cleanup()

    def add(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """As few variables as cron gives."""
        path = os.pathsep.join([str(self.bin), "/usr/local/bin", "/usr/bin", "/bin"])
        return {"PATH": path, "HOME": str(self.bin.parent), "LOGNAME": "ada", **more}

    def run(
        self, command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
    ) -> Done:
        """Run a command, and answer for `singerlake` until it ends."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
            try:
                while process.poll() is None:
                    self._answer_one()
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            err.seek(0)
            return Done(process.returncode, out.read(), err.read())

    def _answer_one(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return
        with connection:
            connection.settimeout(10)
            asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
            names = {name for name in (*os.environ, *asked["environment"]) if _its(name)}
            given = {name: asked["environment"].get(name) for name in names}
            given["SINGERLAKE_CACHE"] = "off"
            # Spark's tasks have the variables of the session's start: what is set since goes along
            # with the settings.
            for name in filter(_is_of_aws, asked["environment"]):
                given[f"SINGERLAKE_{name}"] = given[name]
            with pytest.MonkeyPatch.context() as monkeypatch:
                monkeypatch.chdir(asked["folder"])
                done = CliRunner().invoke(cli, asked["args"], prog_name="singerlake", env=given)
            connection.sendall(json.dumps([done.stdout, done.stderr, done.exit_code]).encode())


def _its(name: str) -> bool:
    return name.startswith("SINGERLAKE_") or _is_of_aws(name)


def _is_of_aws(name: str) -> bool:
    return name.startswith("AWS_")
