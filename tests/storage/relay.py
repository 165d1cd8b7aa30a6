"""A wire between boto3 and the server that can be told to misbehave, once per fault."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Seen:
    """A request that came by."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Fault:
    """What happens to the next request of a method.

    Attributes:
        method: Of the request.
        status: Answered instead of the server's own; None closes the connection silently.
        body: Answered with ``status``.
        headers: Answered with ``status``.
        forward: Whether the server gets the request all the same.
        part: Where in the path and query the fault applies.
        cut: Break the answer off in the middle of its body: ``status`` and ``body``, or the
            server's own.
        reset: Break it off as a machine that fails does, and not as one that is done.
        chunked: Send the server's own answer on in chunks, with no word of its length.
        meanwhile: Called before the request goes on.
    """

    method: str
    status: int | None = None
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    forward: bool = False
    part: str = ""
    cut: bool = False
    reset: bool = False
    chunked: bool = False
    meanwhile: Callable[[], object] | None = None


@dataclass
class Answer:
    """What the client gets."""

    status: int
    headers: dict[str, str]
    data: bytes
    cut: bool = False
    chunked: bool = False
    reset: bool = False


class _Server(ThreadingHTTPServer):
    """Closes connections as they are to be closed."""

    def shutdown_request(self, request: Any) -> None:
        if any(request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET))):
            self.close_request(request)
        else:
            super().shutdown_request(request)


_RESET = struct.pack("ii", 1, 0)
"""Leaves the other side with an error, and not with an end."""


class Relay:
    """Forwards to ``port``; see :class:`Fault`. Listens at a free port, or at its own."""

    def __init__(self, port: int, own: int = 0) -> None:
        self.seen: list[Seen] = []
        self._faults: list[Fault] = []
        self._mutex = threading.Lock()
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = relay._answer(self.command, self.path, body, dict(self.headers))
                if answer is None:
                    self.close_connection = True
                    return
                _send(self, answer)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

        self._port = port
        self._server = _Server(("127.0.0.1", own), Handler)
        self.port = int(self._server.server_port)
        self.url = f"http://127.0.0.1:{self.port}"

    def fail(self, fault: Fault, times: int = 1) -> None:
        """Let the next requests of this kind fail."""
        with self._mutex:
            self._faults += [fault] * times

    def recover(self) -> None:
        """Drop faults that no request met."""
        with self._mutex:
            self._faults.clear()

    def requests(self, method: str, part: str = "") -> list[Seen]:
        """What came by."""
        return [one for one in self.seen if one.method == method and part in one.path]

    @contextmanager
    def running(self) -> Iterator[Relay]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def _next(self, method: str, path: str, headers: dict[str, str]) -> Fault | None:
        with self._mutex:
            self.seen.append(Seen(method, path, headers))
            for fault in self._faults:
                if fault.method == method and fault.part in path:
                    self._faults.remove(fault)
                    return fault
        return None

    def _answer(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Answer | None:
        fault = self._next(method, path, headers)
        if fault is None:
            return self._forward(method, path, body, headers)
        if fault.meanwhile:
            fault.meanwhile()
        if fault.status is None and (fault.cut or fault.chunked or fault.meanwhile):
            served = self._forward(method, path, body, headers)
            return replace(served, cut=fault.cut, chunked=fault.chunked, reset=fault.reset)
        if fault.forward:
            self._forward(method, path, body, headers)
        if fault.status is None:
            return None
        data = fault.body.encode()
        return Answer(fault.status, fault.headers, data, cut=fault.cut, reset=fault.reset)

    def _forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            headers.pop("Expect", None)
            server.request(method, path, body, headers)
            answer = server.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            server.close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    data = b"" if handler.command == "HEAD" else answer.data
    handler.send_response(answer.status)
    for name, value in answer.headers.items():
        if name.lower() not in ("connection", "content-length", "transfer-encoding"):
            handler.send_header(name, value)
    if answer.chunked:
        handler.send_header("Transfer-Encoding", "chunked")
        pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
        data = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    else:
        handler.send_header("Content-Length", str(len(answer.data)))
    handler.end_headers()
    handler.close_connection = answer.cut
    handler.wfile.write(data[: len(data) // 2 if answer.cut else len(data)])
    if answer.reset:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def error_body(code: str, message: str = "the server's message", more: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    )


def answer(method: str, code: str, status: int, more: str = "", part: str = "") -> Fault:
    return Fault(method, status, error_body(code, more=more), part=part)
