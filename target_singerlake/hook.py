"""Tells a command or a webhook what happened, for the setting ``on_event``."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from singerlake.errors import UsageError

SECONDS = 10.0
"""How long one event may take. A run that a signal ends has little more."""

_WEB = ("http://", "https://")


class Hook:
    """One command or webhook.

    Args:
        said: What the setting says: a URL, or a command with its arguments, as a shell would
            split it.
        logger: For what could not be told.

    Raises:
        UsageError: It is neither.
    """

    def __init__(self, said: str, logger: logging.Logger) -> None:
        self._logger = logger
        # Messages never have the whole of it: both may hold a token.
        if said.lower().startswith(_WEB):
            self._tell: Callable[[bytes], str] = lambda data: _post(said, data)
            self._name = f"the webhook at {_host(said)}"
            return
        try:
            command = shlex.split(said)
        except ValueError as error:
            raise UsageError(f"on_event cannot be split into words: {error}") from error
        if not command:
            raise UsageError("on_event is empty: give a command, or an address with https://")
        self._tell = lambda data: _call(command, data)
        self._name = f"the command {command[0]}"

    def tell(self, event: Mapping[str, Any]) -> None:
        """Hand an event over, as one JSON object. Never raises: the run is what it is."""
        data = json.dumps(event, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        outcome: list[str] = []
        # On a thread that nobody has to wait for: a server may answer byte by byte.
        thread = threading.Thread(target=lambda: outcome.append(self._tell(data)), daemon=True)
        thread.start()
        thread.join(SECONDS + 1)
        wrong = outcome[0] if outcome else _LATE
        if wrong:
            self._logger.warning(
                "on_event: %s did not receive %s: %s", self._name, event["event"], wrong
            )


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise UsageError("on_event is an address without a host, or one that cannot be read")
    return host


_LATE = f"it took longer than {SECONDS:g} s"


def _call(command: list[str], data: bytes) -> str:
    """Run a command; return what went wrong."""
    try:
        # Standard output is for STATE alone. A group of its own ends with all that it started.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    try:
        process.communicate(data, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return _LATE
    return f"it ended with exit code {process.returncode}" if process.returncode else ""


def _post(url: str, data: bytes) -> str:
    """Send to a webhook; return what went wrong."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Refused(HTTPRedirectHandler):
        """Follows none: urllib would make a GET of the POST, and leave the event behind."""

        def redirect_request(self, *_args: Any) -> None:
            return None

    request = Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with build_opener(Refused).open(request, timeout=SECONDS):
            return ""
    except HTTPError as error:
        return f"it answered {error.code}"
    except TimeoutError:
        return _LATE
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None)
        return f"it cannot be reached ({type(reason or error).__name__})"
