"""moto's S3 server in a process of its own, which tells what it was asked and what it took."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.harness import HERE

ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""What clients of it need in their environment."""


@dataclass(frozen=True)
class S3Server:
    """A server that runs.

    Attributes:
        address: Its URL.
        pid: Its process.
        log: Where it writes a line for each request.
    """

    address: str
    pid: int
    log: Path

    def requests(self) -> int:
        """How many it has answered."""
        return self.log.read_bytes().count(b" HTTP/1.1\x22 ")

    def cpu(self) -> float:
        """Seconds of processor that it has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Run one; this process gets what its clients need in their environment."""
    os.environ.update(ACCOUNT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.storage.moto_process", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=HERE.parent, stdout=out, stderr=out)
    try:
        while True:
            assert process.poll() is None, f"the S3 server ended: {log.read_text()}"
            with suppress(OSError):
                urllib.request.urlopen(f"{address}/moto-api/", timeout=10)
                break
            time.sleep(0.2)
        yield S3Server(address, process.pid, log)
    finally:
        process.terminate()
        process.wait()
