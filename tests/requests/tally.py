"""Counts requests by what they are for, on the wire, so that executors' count as well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

from singerlake.format import names
from tests.storage.relay import Answer, Relay

_KINDS = (
    (re.compile(re.escape(names.LAKE)), "lake"),
    (re.compile(r"raw/[^/]+/catalogue\.json"), "catalogue"),
    (re.compile(r".*/manifest\.json"), "manifest"),
    (re.compile(r".*/head\.json"), "head"),
    (re.compile(r".*/transactions/[^/]+"), "log"),
    (re.compile(r"versions/\d+\.json"), "lake-version"),
    (re.compile(r".*\.lock"), "lock"),
    (re.compile(r".*/leases/[^/]+"), "lease"),
    (re.compile(r".*\.singer\.gz"), "data"),
    (re.compile(r".*/files/(lists|doomed)/[^/]+"), "list"),
    (re.compile(r".*/files/[0-9a-f]{2}/[^/]+"), "stored"),
    (re.compile(r"index/.*/_index\.json"), "marker"),
    (re.compile(r"index/.*\.parquet"), "index"),
    (re.compile(re.escape(names.STAGING) + ".*"), "probe"),
    (re.compile("/.*"), "outside"),  # the root was not taken off
)
_FOLDERS = (
    (re.compile(r"raw/"), "taps"),
    (re.compile(r"raw/[^/]+/"), "streams"),
    (re.compile(r"raw/[^/]+/[^/]+/"), "table"),
    (re.compile(r".*/transactions/"), "log"),
    (re.compile(r".*/leases/"), "leases"),
    (re.compile(r".*/files/([0-9a-f]{2}/)?"), "stored"),
    (re.compile(r"versions/"), "lake-versions"),
    (re.compile(r"bookmarks/"), "bookmarks"),
    (re.compile(r"index/[^/]+/[^/]+/"), "indexes"),
    (re.compile(r"index/[^/]+/[^/]+/[^/]+/"), "index"),
    (re.compile(re.escape(names.STAGING)), "staging"),
)


class Tally(Relay):
    """A relay that keeps what each request was for.

    Args:
        port: The server's.
        lake: The lake's URI, ``s3://bucket/prefix`` of plain characters.
    """

    def __init__(self, port: int, lake: str) -> None:
        super().__init__(port)
        self._root = f"/{lake.removeprefix('s3://')}/"
        self._kinds: list[str] = []

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """What comes by in the meantime, by kind; filled when the block ends."""
        before, found = len(self._kinds), Counter[str]()
        yield found
        found.update(self._kinds[before:])

    def _answer(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Answer | None:
        answer = super()._answer(method, path, body, headers)
        status = answer.status if answer is not None else 0
        kind = kind_of(method, path, self._root, status)
        new = any(name.lower() == "if-none-match" for name in headers)
        # Those held for long are written anew as time goes by: no matter of what is done.
        if new or kind not in ("PUT lock", "PUT lease"):
            self._kinds.append(kind)
        return answer


def kind_of(method: str, path: str, root: str, status: int) -> str:
    """``GET log``, ``GET log (none)``, ``PUT data``, ``LIST table``, ``PART data``, …

    Args:
        method: Of the request.
        path: With its query.
        root: Path of the lake's root, with its slash.
        status: Of the answer.
    """
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if "list-type" in query:
        return f"LIST {_named(query['prefix'][0], root.split('/', 2)[2], _FOLDERS)}"
    if "versions" in query and method == "GET":
        return "LIST versions"
    if "uploads" in query and method == "GET":
        return "LIST uploads"
    kind = _named(unquote(parts.path), root, _KINDS)
    if "uploads" in query:
        return f"BEGIN {kind}"
    if "uploadId" in query:
        method = {"PUT": "PART", "POST": "COMPLETE", "DELETE": "ABORT"}[method]
    if status == HTTPStatus.NOT_FOUND:
        return f"{method} {kind} (none)"
    if status == HTTPStatus.PRECONDITION_FAILED:
        return f"{method} {kind} (taken)"
    return f"{method} {kind}"


def _named(key: str, root: str, kinds: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    inside = key.removeprefix(root)
    return next((name for pattern, name in kinds if pattern.fullmatch(inside)), inside)


def spelled(counted: Counter[str]) -> str:
    """A count for people, one kind a line."""
    lines = [f"  {count:3} {kind}" for kind, count in sorted(counted.items())]
    return "\n".join([f"{counted.total()} requests", *lines])
