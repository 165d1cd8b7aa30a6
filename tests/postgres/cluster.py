"""A PostgreSQL cluster of the tests' own: made in a folder, started on a free port, thrown away."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SERVER_USER = "postgres"  # PostgreSQL refuses to run as root; Debian's packages bring this user
OPTIONS = {
    "wal_level": "logical",  # LOG_BASED replication
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "fsync": "off",
    "timezone": "UTC",
    "listen_addresses": "127.0.0.1",
}


def programs() -> Path | None:
    """The folder of initdb and postgres, the newest where there are several; None without any."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_release)
    beside = shutil.which("initdb")
    return found[-1].parent if found else Path(beside).resolve().parent if beside else None


def _release(initdb: Path) -> int:
    return int(initdb.parents[1].name)


def _die_with_parent() -> None:
    """Have the server told to stop at once when the tests are killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGQUIT)


def missing() -> str | None:
    """Why no cluster can be started here, in words for a skipped test; None where it can be."""
    where = programs()
    if where is None:
        return "PostgreSQL is not installed: apt-get install postgresql-15 postgresql-15-wal2json"
    plugin = where.parent / "lib" / "wal2json.so"
    shared = where.parents[1] / "lib" / "postgresql" / "wal2json.so"
    if not (plugin.exists() or shared.exists()):
        return "PostgreSQL's wal2json is not installed: apt-get install postgresql-15-wal2json"
    return None


class Cluster:
    """A running cluster.

    Attributes:
        port: Its port on 127.0.0.1. Everyone may log in as ``postgres``, with any password.
    """

    def __init__(self) -> None:
        where = programs()
        assert where is not None
        self._programs = where
        self._folder = Path(tempfile.mkdtemp(prefix="singerlake-postgres-"))
        self._as = {"user": SERVER_USER} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(self._folder, SERVER_USER)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._run("initdb", "--pgdata", self._data, "--username", "postgres", "--auth", "trust",
                  "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")  # fmt: skip
        options = {**OPTIONS, **self._allowed_plugins()}
        settings = [f"--{name}={value}" for name, value in options.items()]
        self._server = subprocess.Popen(
            [where / "postgres", "-D", self._data, "-p", str(self.port), "-k", self._folder,
             *settings],
            stdout=subprocess.DEVNULL, stderr=(self._folder / "log").open("wb"),
            cwd=self._folder, preexec_fn=_die_with_parent, **self._as,
        )  # fmt: skip
        self._wait()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [self._programs / program, *arguments]
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, check=False, **self._as
        )
        assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"

    def _wait(self) -> None:
        for _ in range(600):
            ready = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            assert self._server.poll() is None, (self._folder / "log").read_text("utf-8")
            time.sleep(0.1)
        raise AssertionError("PostgreSQL did not start within a minute")

    def _allowed_plugins(self) -> dict[str, str]:
        """The minor releases since 2026 load only the output plugins that a setting names."""
        name = "output_plugin_libraries"
        asked = [self._programs / "postgres", "-D", self._data, "-C", name]
        known = subprocess.run(
            asked, cwd=self._folder, capture_output=True, check=False, **self._as
        )
        return {name: "wal2json"} if known.returncode == 0 else {}

    def sql(self, database: str, text: str) -> list[str]:
        """Run statements, and give the rows of the answer, with ``|`` between their columns."""
        command = [self._programs / "psql", "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-U", "postgres", "-d", database, "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return done.stdout.split("\n")[:-1]  # not splitlines: rows may hold other line ends

    def stop(self) -> None:
        """Stop at once, and leave nothing behind."""
        self._server.send_signal(signal.SIGQUIT)  # without waiting for who is connected
        self._server.wait(30)
        shutil.rmtree(self._folder)
