"""What records may make the target read, and what not."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from singerlake.errors import DamagedError, InputError, StoreError, UsageError
from singerlake.files import http
from singerlake.files.sources import MissingFileError, SourceOptions, Sources
from singerlake.format.content import decode_list, encode_list
from tests.files.photos import sync
from tests.target.harness import records_of


def read(uri: str, *roots: Path | str, **more: Any) -> bytes:
    return b"".join(Sources(SourceOptions(tuple(map(str, roots)), **more)).pieces(uri))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (root / "in" / "a").write_bytes(b"a")
    (tmp_path / "secret").write_bytes(b"s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(root / "socket"))
    sock.close()
    return root


@pytest.mark.parametrize(
    "uri",
    [
        "../secret",
        "in/../../secret",
        "file:///{root}/../secret",
        "file://{root}/in/%2e%2e/%2e%2e/secret",
        "{root}/../secret",
        "link",
        "folder/secret",
        "pipe",
        "socket",
        "in",
        "/dev/zero",
        "file:///dev/zero",
        "/etc/passwd",
        "file://elsewhere/etc/passwd",
        "file:etc",
        "{root}",
        "{root}evil/a",
        "a\0b",
        "file:///a%00b",
        "s3://foreign/a",
        "ftp://host/a",
        "http://example.com/a",
        "gopher:a",
        "photo:1.jpg",
        "file://[x/abc",
        "https://[x/abc",
        "s3://[x/abc",
        "x" * 300,
    ],
)
def test_what_is_not_below_a_root_is_not_read(root: Path, uri: str) -> None:
    with pytest.raises(InputError) as failed:
        read(uri.replace("{root}", str(root)), root)
    assert len(str(failed.value)) < 500


def test_what_is_below_one_of_several_roots(root: Path, tmp_path: Path) -> None:
    assert read("in/a", root) == b"a"
    assert read("a", tmp_path, f"file://{root}/in") == b"a"
    assert read("root/in/a", tmp_path) == b"a"
    (tmp_path / "chosen").symlink_to(root)  # a root may be a link: the user's choice
    assert read(f"{tmp_path}/chosen/in/a", tmp_path / "chosen") == b"a"
    with pytest.raises(MissingFileError):
        read("in/b", root, tmp_path)
    (root / "photo:1.jpg").write_bytes(b"colon")
    assert read("./photo:1.jpg", root) == b"colon"


@pytest.mark.parametrize("bad", ["ftp://bucket", "none", "in/a", "s3://a b/c", "gs:///x", "s3:/a"])
def test_a_root_that_is_none_is_said_at_once(
    root: Path, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(UsageError, match="^file_roots: ") as failed:
        Sources(SourceOptions((str(root), bad)))
    assert "a lake" not in str(failed.value)


def test_a_root_that_goes_away_is_no_file_that_is_missing(root: Path, tmp_path: Path) -> None:
    sources = Sources(SourceOptions((str(root),)))
    root.rename(tmp_path / "unmounted")
    with pytest.raises(StoreError, match="longer exists: check"):
        next(sources.pieces("in/a"))


def test_a_file_that_changes_while_it_is_read(root: Path) -> None:
    with pytest.raises(InputError, match="changed while it was read"):
        for _ in Sources(SourceOptions((str(root),))).pieces("in/a"):
            (root / "in" / "a").write_bytes(b"longer")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_no_private_network(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not http.is_public(address)
    found = [(0, 0, 0, "", ("93.184.215.14", 80)), (0, 0, 0, "", (address, 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(InputError, match="private network"):
        read("http://rebinding.example/a", http=True)


def test_public_addresses() -> None:
    assert http.is_public("93.184.215.14")
    assert http.is_public("2606:2800:21f:cb07:6820:80da:af6b:8b2c")
    assert http.is_public("::ffff:93.184.215.14")


BOMB = gzip.compress(bytes(50 << 20))
"""Fifty kilobytes that inflate to fifty megabytes."""


class _Site(BaseHTTPRequestHandler):
    """Serves a few pages; breaks off once in the middle of one."""

    body = bytes(range(256)) * 40
    broken = False

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
        elif self.path == "/gone":
            self.send_error(404)
        elif self.path.startswith("/secret"):
            self.send_error(403)
        elif self.path == "/bomb":
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(BOMB)))
            self.end_headers()
            self.wfile.write(BOMB)
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                self.wfile.write(self.body)
        else:
            self._file()

    def _file(self) -> None:
        ranged = self.headers.get("Range")
        start = int(ranged[6:-1]) if ranged else 0
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(self.body) - start))
        self.send_header("ETag", '"one"')
        self.end_headers()
        breaks = self.path == "/breaks" and not ranged
        self.wfile.write(self.body[start : 5000 if breaks else None])
        if breaks:
            self.close_connection = True


@contextmanager
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    actual = http.is_public
    monkeypatch.setattr(http, "is_public", lambda a: a == "127.0.0.1" or actual(a))
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.usefixtures("services")
def test_files_from_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    with site(monkeypatch) as at:
        assert read(f"{at}/a", http=True) == _Site.body
        assert read(f"{at}/breaks?x=1", http=True) == _Site.body
        assert read(f"{at}/breaks", http=True) == _Site.body
        assert read(f"{at}/to//a", http=True) == _Site.body
        with pytest.raises(MissingFileError):
            read(f"{at}/gone", http=True)
        with pytest.raises(InputError, match="answered 403"):
            read(f"{at}/secret?token=hidden", http=True)
        for path in ("a", "endless"):
            with pytest.raises(InputError, match="file_http_max_bytes, 1,000"):
                read(f"{at}/{path}", http=True, http_max_bytes=1000)
        with pytest.raises(InputError, match="private network"):
            read(f"{at}/to/http://10.0.0.1/a", http=True)
        with pytest.raises(InputError, match="redirected more"):
            read(f"{at}{'/to/' * 8}a", http=True)
        with pytest.raises(InputError, match="not a web address"):
            read(f"{at}/to/file:///etc/passwd", http=True)


@pytest.mark.usefixtures("services")
def test_nothing_that_is_stored_is_inflated(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "bomb.gz").write_bytes(BOMB)
    assert read("bomb.gz", root) == BOMB
    assert read(f"data:application/gzip;base64,{base64.b64encode(BOMB).decode()}") == BOMB
    with site(monkeypatch) as at:
        assert read(f"{at}/bomb", http=True, http_max_bytes=len(BOMB)) == BOMB
    lake = tmp_path / "lake"
    sync(lake, {1: "bomb.gz"}, file_roots=[str(root)])
    [row] = records_of(lake, "photos")
    assert row["photo"]["size"] == len(BOMB)


def test_a_device_below_a_root_is_not_read() -> None:
    for name in ("zero", "null", "full", "tty"):
        with pytest.raises(InputError, match="not a regular file"):
            read(name, "/dev")


def test_a_password_in_an_address_is_neither_sent_nor_shown() -> None:
    with pytest.raises(InputError) as failed:
        read("https://user:hunter2@example.com/a?key=hunter3", http=True)
    assert "hunter" not in str(failed.value)


def test_a_list_that_inflates_without_end() -> None:
    listed, _ = encode_list({f"files/00/{'0' * 64}-{'0' * 16}": 1})
    bomb = gzip.compress(b"files" * 1_000_000)
    forged = replace(listed, hash=hashlib.sha256(bomb).hexdigest())
    with pytest.raises(DamagedError):
        decode_list(bomb, forged)
