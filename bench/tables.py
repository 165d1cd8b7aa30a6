"""Many tables on a store that answers after 20 ms: what commands that look at all of them take."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from bench import commits, harness, site
from singerlake import lake as lakes
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.storage.base import KeyMissingError, Listed, StoredObject
from singerlake.storage.local.store import LocalStore
from singerlake_cli.main import cli
from tests.frozen import freeze_here as freeze_small

TABLES, ROWS_AT_FULL_SIZE = 10_000, 1_000_000
DELAY, GOAL = 0.02, 60
FROZEN = 10
T = TypeVar("T")


class FarStore(LocalStore):
    """A folder that answers each request as late as a bucket does, and says that it is one."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.uri = "s3://stand-in/lake"
        self.requests = 0

    def _late(self, answer: Callable[[], T]) -> T:
        self.requests += 1
        time.sleep(DELAY)
        return answer()

    def get(self, key: str) -> StoredObject:
        return self._late(lambda: LocalStore.get(self, key))

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return self._late(lambda: LocalStore.get_range(self, key, offset, length))

    def folders(self, prefix: str) -> Sequence[str]:
        return self._late(lambda: LocalStore.folders(self, prefix))

    def link(self, *what: Any, **how: Any) -> None:
        """Create an object, whatever for."""
        self._late(lambda: LocalStore.link(self, *what, **how))

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        return self._late(lambda: LocalStore.replace(self, key, data, etag, durable=durable))

    def _etag_of(self, key: str) -> str | None:
        with contextlib.suppress(KeyMissingError):
            return LocalStore.get(self, key).etag  # a part of the one request that replaces
        return None

    def delete(self, key: str) -> None:
        self._late(lambda: LocalStore.delete(self, key))

    def list(self, prefix: str) -> Any:
        found: Sequence[Listed] = self._late(lambda: [*LocalStore.list(self, prefix)])
        return iter(found)


def run(folder: Path, rows: int, rounds: int) -> str:
    del rounds  # what is waited for does not vary
    count = max(100, min(TABLES, rows * TABLES // ROWS_AT_FULL_SIZE))
    site._lake(folder / "lake", count)
    _filled(folder / "filled", count)
    lines = [
        "| command | s | requests | CPU s | goal, s | met |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, args in (
        ("lake", ["ls"]),
        ("lake", ["metrics"]),
        ("lake", ["ls", "--sizes"]),
        ("lake", ["vacuum", "--all", "--dry-run"]),
        ("filled", ["verify", "--all"]),
        ("filled", ["projections", "--projections", str(_declared(folder, count))]),
    ):
        seconds, cpu, requests = _command(folder / name, args)
        goal = GOAL * count / TABLES
        lines.append(
            f"| `{' '.join(one for one in args if '/' not in one)}` | {seconds:,.1f} | {requests:,} | {cpu:,.1f} | {goal:,.0f} "
            f"| {'yes' if seconds <= goal else 'no'} |"
        )
    head = f"{count:,} tables on a store that answers after {DELAY * 1000:.0f} ms; "
    return "\n".join([head + harness.machine("boto3"), "", *lines])


def _filled(root: Path, count: int) -> None:
    """Tables that have their data, which a verify reads; every tenth has a version."""
    lake = Lake.open(str(root), create=True)
    for number in range(count):
        table = lake.table(TableName(f"tap-{number % site.TAPS}", f"stream_{number}"))
        table.writer().commit(commits.staged_rows(lake, iter([number]), table.name))
        if number % FROZEN == 0:
            freeze_small(table)


def _declared(folder: Path, count: int) -> Path:
    """A staging table of each table, none of them made: what ``publish --all`` asks first."""
    path = folder / "projections.yml"
    lines = ["version: 1", "projections:"]
    for number in range(count):
        lines += [
            f"- name: p{number}",
            f"  sql: select * from `tap-{number % site.TAPS}`.stream_{number}",
            f"  stage: staging.s{number}",
            "  key: id",
        ]
    path.write_text("\n".join([*lines, ""]))
    return path


def _command(root: Path, args: list[str]) -> tuple[float, float, int]:
    """Seconds, seconds of processor, and requests of a command."""
    store = FarStore(root)
    start, cpu = time.monotonic(), time.process_time()
    with (
        mock.patch.object(lakes, "open_store", return_value=store),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        code = cli.main(
            ["--lake", "s3://stand-in/lake", "--output", "json", *args], standalone_mode=False
        )
    assert not code, code
    return time.monotonic() - start, time.process_time() - cpu, store.requests
