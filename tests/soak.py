"""Writers, freezers, readers, vacuums on one lake, killed at random: nothing acknowledged is lost.

``python -m tests.soak --seconds 120`` on the local disk and on S3 (a server of its own);
``--on threads`` is another: first commits in the threads of fresh processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model import traces
from singerlake.storage.opening import open_store
from singerlake.storage.s3.store import S3Store
from singerlake_cli.main import COMMANDS
from tests.faults import plain
from tests.faults.plain import Dump
from tests.soak_threads import soak_threads
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, _wait_until_ready
from tests.target.harness import record, schema, state, text

ROOT = Path(__file__).parents[1]
TAP = "tap-soak"
SHARED = "shared"
"""A table without a key that all writers write; each has another of its own, with a key."""
PROPERTIES = {"id": {"type": "integer"}, "who": {"type": "integer"}}
WRITERS = 3
ROWS = 20
"""Rows between two STATEs."""
ORDERLY = {0, 4}
"""Done, or somebody else was in the way."""


@dataclass
class Role:
    """What became of one kind of process."""

    runs: int = 0
    killed: int = 0
    conflicts: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.runs:4} runs, {self.killed} killed, {self.conflicts} gave way, "
            f"{len(self.failures)} failed"
        )


class Soak:
    """One lake under fire.

    Args:
        uri: The lake.
        folder: For settings and temporary files.
        env: The environment of all processes.
        seconds: How long.
        seed: Of the kills.
        journal: Where all that is done to the lake is written down; nowhere if empty.
    """

    def __init__(
        self,
        uri: str,
        folder: Path,
        env: dict[str, str],
        seconds: float,
        seed: int,
        journal: str = "",
    ):
        self.uri = uri
        self._recorder = ["tests.recorder", journal] if journal else []
        self._folder = folder
        self._env = {**env, "TMPDIR": str(folder), "SINGERLAKE_LAKE": uri}
        self._ends = time.monotonic() + seconds
        self._random = random.Random(seed)
        self._mutex = threading.Lock()
        self.acknowledged = [0] * WRITERS
        self.roles = {name: Role() for name in ("writers", "readers", "freezers", "vacuums")}

    def run(self) -> None:
        """Let all of them loose until the time is over."""
        jobs = [threading.Thread(target=self._writer, args=(n,)) for n in range(WRITERS)]
        jobs += [threading.Thread(target=self._reader), threading.Thread(target=self._freezer)]
        if "vacuum" in COMMANDS:
            jobs.append(threading.Thread(target=self._vacuum))
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()

    @property
    def _over(self) -> bool:
        return time.monotonic() >= self._ends

    def _start(self, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *self._recorder, *command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=self._env,
        )

    def _doom(self, process: subprocess.Popen[bytes], most: float) -> threading.Timer:
        """Kill a process at some time, if it is still there then."""
        timer = threading.Timer(self._random.uniform(0, most), process.kill)
        timer.start()
        return timer

    def _ended(self, role: str, process: subprocess.Popen[bytes], said: bytes) -> None:
        with self._mutex:
            mine = self.roles[role]
            mine.runs += 1
            mine.killed += process.returncode == -9
            mine.conflicts += process.returncode == 4
            if process.returncode not in (*ORDERLY, -9):
                words = said.decode(errors="replace").strip().splitlines()[-3:]
                mine.failures.append(f"exit {process.returncode}: {' | '.join(words)}")

    def _settings(self, name: str, **more: Any) -> str:
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps({"lake": self.uri, **more}))
        return str(path)

    def _writer(self, number: int) -> None:
        config = self._settings(
            f"writer-{number}",
            tap_id=TAP,
            commit_minutes=0,
            lock_stale_seconds=2,
            lock_wait_seconds=30,
        )
        while not self._over:
            process = self._start(
                "target_singerlake.target", "--config", config, stdin=subprocess.PIPE
            )
            timer = self._doom(process, 8)
            feeder = threading.Thread(target=self._feed, args=(process, number))
            feeder.start()
            said: list[bytes] = []
            listener = threading.Thread(target=_listen, args=(process, said))
            listener.start()
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith(b"\n"):  # a STATE that is cut was not acknowledged
                    self.acknowledged[number] = json.loads(line)
            process.wait()
            timer.cancel()
            feeder.join()
            listener.join()
            self._ended("writers", process, said[0])

    def _feed(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Rows from the last STATE on, as a tap would."""
        own = f"own-{number}"
        keyed = schema(own, PROPERTIES, ["id"])
        following = self.acknowledged[number]
        assert process.stdin is not None
        try:
            process.stdin.write(text([schema(SHARED, PROPERTIES), keyed]))
            while not self._over:
                lines = []
                for _ in range(ROWS):
                    following += 1
                    row = {"id": following, "who": number}
                    lines += [record(SHARED, row), record(own, row)]
                process.stdin.write(text([*lines, state(following)]))
                process.stdin.flush()
            process.stdin.close()
        except OSError:
            pass  # it was killed

    def _reader(self) -> None:
        config = self._settings("reader", tap_id=TAP)
        while not self._over:
            known = list(self.acknowledged)
            if not any(known):
                time.sleep(0.1)  # there is nothing yet
                continue
            process = self._start("tap_singerlake", "--config", config)
            timer = self._doom(process, 20)
            out, said = process.communicate()
            timer.cancel()
            self._ended("readers", process, said)
            if process.returncode == 0:
                messages = [json.loads(line) for line in out.splitlines()]
                lacking = _lacking(_rows(messages), known)
                if lacking:
                    self.roles["readers"].failures.append(f"a reader missed {lacking[:3]}")

    def _freezer(self) -> None:
        while not self._over:
            own = [f"own-{n}" for n, last in enumerate(self.acknowledged) if last]
            stream = self._random.choice([SHARED, *own])  # those that are there
            self._command("freezers", "freeze", f"{TAP}.{stream}")

    def _vacuum(self) -> None:
        while not self._over:
            # As dangerous as it gets: nothing is retained, whoever may be at work.
            dangerous = ["--retain", "0s", "--no-retention-guard", "--wait", "20s"]
            self._command("vacuums", "vacuum", *dangerous, f"{TAP}.{SHARED}")

    def _command(self, role: str, *command: str) -> None:
        if not any(self.acknowledged):
            time.sleep(0.1)  # there is nothing yet
            return
        process = self._start("singerlake_cli.main", *command)
        timer = self._doom(process, 60)
        _, said = process.communicate()
        timer.cancel()
        self._ended(role, process, said)

    def verify(self) -> str:
        """The command's own words, where it finds anything wrong."""
        process = self._start("singerlake_cli.main", "verify", "--all")
        out, said = process.communicate()
        return "" if process.returncode == 0 else (out + said).decode(errors="replace")


def _listen(process: subprocess.Popen[bytes], said: list[bytes]) -> None:
    assert process.stderr is not None
    said.append(process.stderr.read())


def _rows(messages: list[dict[str, Any]]) -> dict[str, set[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    for message in messages:
        if message["type"] == "RECORD":
            row = message["record"]
            found.setdefault(message["stream"], set()).add((row["who"], row["id"]))
    return found


def _lacking(rows: dict[str, set[tuple[int, int]]], known: list[int]) -> list[str]:
    """Acknowledged rows that are not there."""
    return [
        f"row {number} of writer {who} in {stream}"
        for who, last in enumerate(known)
        for stream in (SHARED, f"own-{who}")
        for number in range(1, last + 1)
        if (who, number) not in rows.get(stream, set())
    ]


def report(soak: Soak, dump: Dump) -> list[str]:
    """Print what happened; what went wrong is given back."""
    wrong = [f"{name}: {said}" for name, role in soak.roles.items() for said in role.failures]
    for name, role in soak.roles.items():
        if role.runs:
            print(f"  {name:9}{role}")
    found = soak.verify()
    wrong += [f"verify: {found}"] if found else []
    tables = plain.tables(dump)
    messages = [
        {**message, "stream": name.partition(".")[2]}
        for name, table in tables.items()
        for message in table.messages()
    ]
    wrong += _lacking(_rows(messages), soak.acknowledged)[:5]
    for name, table in tables.items():
        for version in table.versions:
            if len(table.state(version["transaction"])) != version["rows"]:
                wrong.append(f"{name} version {version['number']} has not the rows it says")
    commits = sum(len(table.log) for table in tables.values())
    versions = sum(len(table.versions) for table in tables.values())
    shared = [m for m in messages if m["stream"] == SHARED]
    twice = len(shared) - len({(m["record"]["who"], m["record"]["id"]) for m in shared})
    print(f"  transactions  {commits:,} without a gap, {versions} of them versions")
    print(f"  acknowledged  {2 * sum(soak.acknowledged):,} rows, looked for one by one")
    print(f"  sent again    {twice:,} rows after a kill, in the table without a key")
    print(f"  verify        {'clean' if not found else 'NOT CLEAN'}")
    if not soak.roles["writers"].killed or not any(soak.acknowledged):
        wrong.append("nobody was killed, or nothing was acknowledged: let it run for longer")
    return wrong


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server of one's own; its endpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.moto_process", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def soak_local(seconds: float, seed: int, journal: str) -> list[str]:
    """On the local disk."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lake = Path(folder, "lake")
        soak = Soak(str(lake), Path(folder), dict(os.environ), seconds, seed, journal)
        soak.run()
        return report(soak, plain.dump_folder(lake))


def soak_s3(seconds: float, seed: int, _journal: str) -> list[str]:
    """On S3, where nothing is recorded."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, s3_server() as endpoint:
        env = {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
        }
        os.environ.update(env)
        uri = f"s3://{BUCKET}/soak"
        store = open_store(uri)
        assert isinstance(store, S3Store)
        store._client.create_bucket(Bucket=BUCKET)
        soak = Soak(uri, Path(folder), dict(os.environ), seconds, seed)
        soak.run()
        dump = {item.key: store.get(item.key).data for item in store.list("raw/")}
        return report(soak, dump)


def main() -> int:
    """Run it, and say in a few lines what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="for each place")
    parser.add_argument("--on", choices=["local", "s3", "both", "threads"], default="both")
    parser.add_argument("--runs", type=int, default=2000, help="with --on threads: how many")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--journal", default="", help="record the local lake, check it as a trace")
    asked = parser.parse_args()
    places = {"local": soak_local, "s3": soak_s3}
    wrong: list[str] = []
    if asked.on == "threads":
        print(f"threads, {asked.runs:,} runs", flush=True)
        wrong += soak_threads(asked.runs)
    for place, soak in places.items():
        if asked.on in (place, "both"):
            print(f"{place}, {asked.seconds:g} s, seed {asked.seed}", flush=True)
            found = soak(asked.seconds, asked.seed, asked.journal)
            wrong += [f"{place}: {said}" for said in found]
    if asked.journal and traces.main([asked.journal]):
        wrong.append("a trace is no behaviour of the model")
    for said in wrong:
        print(f"WRONG  {said}")
    print("all is well" if not wrong else f"{len(wrong)} things went wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
