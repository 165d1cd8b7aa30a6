"""moto's S3 server, with writes one at a time.

moto looks whether a key is taken and then stores it, in threads: two writers could both win.
S3 decides in one step, so the server that stands in for it must too. In buckets whose names
begin with ``non-conditional`` it ignores conditions, as some services do; with
``non-conditional-parts``, only those on large files.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class OneWriteAtATime:
    def __init__(self, app: Callable[[Any, Any], Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start_response)
        path = environ["PATH_INFO"]
        only_parts = (
            path.startswith("/non-conditional-parts/") and environ["REQUEST_METHOD"] == "PUT"
        )
        if path.startswith("/non-conditional") and not only_parts:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ.pop("HTTP_IF_MATCH", None)
        with self._lock:
            return list(self._app(environ, start_response))


if __name__ == "__main__":
    app = OneWriteAtATime(DomainDispatcherApplication(create_backend_app))
    run_simple(
        "127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=MotoRequestHandler
    )
