"""Where files of records may lie: a manifest is input like any other, and may mean harm.

A name is resolved first, with all its symbolic links and ``..``, and then held against the
folders and buckets that the settings allow. A file is then opened from the allowed folder on,
step by step and following no link, so that nobody can exchange a part of the way meanwhile.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from singerlake.errors import UsageError
from singerlake.format.names import RAW, STAGING
from singerlake.plugins import batch_places
from singerlake.plugins.settings import batch_options
from singerlake.safe_text import redacted
from singerlake.storage.keys import is_key
from singerlake.storage.opening import folder, in_project, is_remote
from singerlake.storage.options import StoreOptions
from target_singerlake.batches.files import BatchFile, LocalBatchFile, ObjectBatchFile
from target_singerlake.errors import InvalidLineError

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?=/)")
FOLDERS = 1000
"""Folders of which is remembered where they are."""
SHOWN = 300
"""Characters of a name that a message repeats."""


@dataclass(frozen=True)
class _Bucket:
    """A bucket, or the keys below a prefix of one, which ends in a slash where it is not empty."""

    uri: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.uri}/{self.prefix}".rstrip("/")


class Roots:
    """The places that files may be taken from.

    Args:
        allowed: Folders, and ``s3://bucket/prefix`` and the like; None for the run's own folder,
            the system's temporary one and the lake's bucket.
        lake: The lake's URI; its own files are no input.
        base: What relative names are relative to; None for the run's own folder. Files below it
            are allowed.
        options: How to reach a bucket.

    Raises:
        UsageError: One of the places cannot be one.
    """

    def __init__(
        self,
        allowed: Sequence[str] | None,
        lake: str,
        base: str | None = None,
        options: StoreOptions | None = None,
    ) -> None:
        self._base = _base_of(base) if base else Path.cwd()
        self._options = options or StoreOptions()
        # Of a lake that is named by a web address, no file can be named by a manifest.
        elsewhere = is_remote(lake) and not batch_places.in_bucket(lake)
        at_lake = None if elsewhere else _place(lake, "lake")
        if allowed is None:
            places = [*_own_folders(), *([at_lake] if isinstance(at_lake, _Bucket) else [])]
            places = [_Bucket(p.uri, "") if isinstance(p, _Bucket) else p for p in places]
        else:
            places = [_place(text, "batch_roots") for text in allowed]
        if base:
            places.append(self._base)
        self._folders = [p for p in places if isinstance(p, Path)]
        self._buckets = [p for p in places if isinstance(p, _Bucket)]
        self._lake_bucket = at_lake if isinstance(at_lake, _Bucket) else None
        self._lake_folders = (
            tuple(f"{at_lake}{os.sep}{name}" for name in (RAW, STAGING))
            if isinstance(at_lake, Path)
            else ()
        )
        self._resolved_folders: dict[str, str] = {}

    @classmethod
    def of(cls, config: Mapping[str, Any], lake: str) -> Roots:
        """Make them by a target's settings.

        Raises:
            UsageError: They cannot be used.
        """
        storage = (config.get("batch_config") or {}).get("storage") or {}
        return cls(
            config.get("batch_roots"), lake, storage.get("root") or None, batch_options(config)
        )

    def find(self, uri: str) -> BatchFile:
        """Find the file that a manifest names; it is not looked at yet.

        Args:
            uri: ``file:///folder/file``, ``s3://bucket/key`` and the like, a path, or a name
                relative to the base.

        Raises:
            InvalidLineError: It names no place, or one that is not allowed.
        """
        if "\0" in uri or not uri.strip():
            raise InvalidLineError(f"{shown(uri)!r} is not a file name")
        if batch_places.in_bucket(uri):
            return self._object(uri)
        match = _SCHEME.match(uri)
        if match is None:
            return self._relative(uri)
        if match["scheme"].lower() != "file":
            raise InvalidLineError(
                f"{shown(uri)} is not a file://, s3://, gs:// or az:// URI, and no other files are "
                "accepted"
            )
        rest = unquote(uri[match.end() :], errors="surrogateescape")
        if "\0" in rest:
            raise InvalidLineError(f"{shown(uri)!r} is not a file name")
        if rest.startswith("//"):
            host, slash, path = rest[2:].partition("/")
            # What the SDK makes of file://folder/file is relative, though the RFC says a host.
            return (
                self._local(slash + path, uri)
                if host in ("", "localhost")
                else (self._relative(rest[2:]))
            )
        return self._local(rest, uri)

    def _relative(self, name: str) -> BatchFile:
        if isinstance(self._base, _Bucket):
            return self._object(f"{self._base}/{name}")
        return self._local(str(self._base / name), name)

    def _local(self, path: str, uri: str) -> BatchFile:
        resolved = self._resolved(path)
        if resolved.startswith(self._lake_folders):
            raise _lakes_own(uri)
        for root in self._folders:
            start = os.path.join(root, "")  # noqa: PTH118  # a path would take ten times as long
            if resolved.startswith(start):
                return LocalBatchFile(root, tuple(resolved[len(start) :].split("/")))
        raise self._not_allowed(uri)

    def _resolved(self, path: str) -> str:
        """Follow all links and dots of a path.

        Folders are remembered, for a manifest may name very many files of one. That they may
        change meanwhile does no harm: a file is opened by a way on which no link is followed.
        """
        parent, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if parent not in self._resolved_folders:
            if len(self._resolved_folders) >= FOLDERS:
                self._resolved_folders.clear()
            self._resolved_folders[parent] = os.path.realpath(parent)
        resolved = f"{self._resolved_folders[parent].rstrip(os.sep)}{os.sep}{name}"
        is_link = os.path.islink(resolved)  # noqa: PTH114
        return os.path.realpath(resolved) if is_link else resolved

    def _object(self, uri: str) -> BatchFile:
        scheme, _, rest = uri.partition("://")
        name, _, key = rest.partition("/")
        bucket = f"{scheme.lower()}://{name}"
        if not is_key(key):
            raise InvalidLineError(
                f"{shown(uri)} is not an object name: it has an empty or dotted part"
            )
        if (lake := self._lake_bucket) is not None and bucket == lake.uri:
            inner = key.removeprefix(lake.prefix)
            if key.startswith(lake.prefix) and inner.startswith((RAW, STAGING)):
                raise InvalidLineError(
                    f"{shown(uri)} belongs to the lake itself, and cannot be an input"
                )
        if not any(bucket == one.uri and key.startswith(one.prefix) for one in self._buckets):
            raise self._not_allowed(uri)
        return ObjectBatchFile(bucket, key, self._options)

    def _not_allowed(self, uri: str) -> InvalidLineError:
        places = [*map(str, self._folders), *map(str, self._buckets)]
        return InvalidLineError(
            f"{shown(uri)} is outside of the allowed locations "
            f"({', '.join(places) or 'there are none'}): if you trust the tap, add the folder or "
            "the bucket to batch_roots"
        )


def shown(uri: str) -> str:
    """Return a name as a message may repeat it."""
    text = redacted(uri)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _lakes_own(uri: str) -> InvalidLineError:
    return InvalidLineError(f"{shown(uri)} belongs to the lake itself, and cannot be an input")


def _own_folders() -> list[Path | _Bucket]:
    """The run's own folder and the system's temporary one; never all that the machine has."""
    folders = [Path(os.path.realpath(path)) for path in (Path.cwd(), tempfile.gettempdir())]
    return [path for path in dict.fromkeys(folders) if path != Path(path.anchor)]


def _base_of(root: str) -> Path | _Bucket:
    """Read the root of the SDK's storage, where file://folder is relative."""
    rest = root.removeprefix("file://")
    relative = rest != root and not rest.startswith(("/", "localhost/"))
    return _place(unquote(rest) if relative else root, "batch_config.storage.root")


def _place(text: str, setting: str) -> Path | _Bucket:
    """Read a folder, or a bucket with or without prefix.

    Raises:
        UsageError: It is neither.
    """
    if batch_places.in_bucket(text):
        bucket, prefix = batch_places.split(text, f"{setting}: a place for files")
        return _Bucket(bucket, f"{prefix}/" if prefix else "")
    if not text.strip() or "\0" in text:
        raise UsageError(f"{setting}: {text!r} names no folder")
    batch_places.refuse_elsewhere(text, setting)
    try:
        return Path(os.path.realpath(folder(in_project(text), "a place for files")))
    except UsageError as error:
        raise UsageError(f"{setting}: {error}") from error
