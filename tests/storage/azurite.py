"""Azurite, which speaks Azure Blob Storage; npm installs it apart, in a folder of its own."""

from __future__ import annotations

import base64
import email.utils
import fcntl
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".node-azurite"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, the same everywhere."""


class NotInstalledError(Exception):
    """It is not there, and cannot be had: there is no npm, or no network."""


def installed() -> Path:
    """Azurite's program, installed from npm's registry by the Makefile at first use.

    Raises:
        NotInstalledError: There is no npm, or its registry does not answer.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NotInstalledError("Azurite is not installed, and there is no npm to install it")
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--quiet", ".node-azurite/installed"],
            cwd=ROOT,
            capture_output=True,
            check=False,
            timeout=300,
        )
    if done.returncode:
        raise NotInstalledError("Azurite is not installed, and npm could not install it")
    return FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def start(program: Path, port: int) -> subprocess.Popen[bytes]:
    """Start one that keeps everything in memory."""
    return subprocess.Popen(
        [
            "node",
            str(program),
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--silent",
            f"--blobPort={port}",
        ],
        cwd=FOLDER,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NODE_ENV": "production"},
    )


def make_container(port: int, name: str) -> None:
    """Make a container: no client of ours does that."""
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(
            "PUT",
            f"/{ACCOUNT}/{name}?restype=container",
            headers={
                "x-ms-date": date,
                "x-ms-version": version,
                "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
            },
        )
        assert connection.getresponse().status in (201, 409)
    finally:
        connection.close()


if __name__ == "__main__":  # the Makefile installs it beside the first tests
    installed()
