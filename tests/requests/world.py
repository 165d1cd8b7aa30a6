"""A lake on S3 of which every request is counted."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.storage.s3.store import S3Store
from singerlake.transactions import checkpoint
from singerlake_cli.main import cli
from tests import build
from tests.requests.tally import Tally
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, TOKEN, options
from tests.storage.plugins import s3_settings
from tests.tap import run as tap
from tests.target.harness import record, run, schema, state, text

TAP = "tap-x"
COLUMNS = {"id": {"type": "integer"}, "name": {"type": "string"}}


class World:
    """A lake of its own. It is filled on a way that is not counted.

    Args:
        port: The S3 server's.
    """

    def __init__(self, port: int) -> None:
        uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        direct = f"http://127.0.0.1:{port}"
        store = S3Store.open(uri, options(direct))
        store._client.create_bucket(Bucket=BUCKET)
        self.uri = uri
        self.direct = Lake(store)
        self.tally = Tally(port, uri)
        self._filled = 0
        self._relay_port = int(self.tally.url.rpartition(":")[2])

    @property
    def environment(self) -> dict[str, str]:
        """What the command line needs to go through the tally."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.tally.url,
        }

    def count(self, work: Callable[[], object]) -> Counter[str]:
        """The requests of some work."""
        with self.tally.counting() as found:
            work()
        return found

    def lake(self) -> Lake:
        """The lake as a new process opens it, counted."""
        return Lake.open(self.uri, options(self.tally.url), create=True)

    def fill(self, stream: str = "s", transactions: int = 1, blocks: int = 1) -> None:
        """Commit transactions of one file each."""
        for number in range(transactions):
            self._filled += 1
            rows: list[Any] = [
                {"id": 2 * number + n, "name": f"n{self._filled}"} for n in range(2 * blocks)
            ]
            with pytest.MonkeyPatch.context() as patch:
                # A time of its own for each file, and so a name.
                time = f"2026-01-02T03:04:05.{self._filled:06d}Z"
                patch.setattr(build, "EXTRACTED", time)
                name = f"{TAP}.{stream}"
                build.commit_rows(self.direct, name, COLUMNS, ["id"], rows, block_rows=2)

    @contextmanager
    def no_checkpoints(self) -> Iterator[None]:
        """Commits leave the manifest behind, as between two checkpoints of a long log."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint, "checkpoint_due", lambda _: False)
            yield

    def command(self, *args: str) -> Callable[[], None]:
        """A command of the command line, to be counted."""

        def work() -> None:
            result = CliRunner(env=self.environment).invoke(cli, ["--lake", self.uri, *args])
            assert result.exit_code == 0, result.output + result.stderr

        return work

    def sync(self, streams: int = 1, files: int = 1, start: int = 0) -> Callable[[], None]:
        """A run of the target, with one block of one row a file.

        Args:
            streams: Number of streams.
            files: Files of each.
            start: The first row's id.
        """
        names = [f"s{n}" for n in range(streams)]
        lines = [schema(name, COLUMNS, ["id"]) for name in names]
        for n in range(start, start + files):
            # Times of their own, and so names.
            time = f"2026-01-02T03:04:05.{n:06d}Z"
            row = {"id": n, "name": "x"}
            lines += [record(name, row, time_extracted=time) for name in names]
        lines.append(state({"n": 1}))

        def work() -> None:
            config = {**s3_settings(self._relay_port), "tap_id": TAP}
            run(self.uri, text(lines), block_rows=1, file_bytes=1, **config)

        return work

    def tap(self, state: dict[str, Any] | None = None, **settings: Any) -> tap.Run:
        """A run of the tap."""
        settings.update(s3_settings(self._relay_port))
        return tap.run(self.direct, state, **settings)

    def table_name(self, stream: str = "s") -> TableName:
        """A table's name."""
        return TableName(TAP, stream)


@contextmanager
def running(port: int) -> Iterator[World]:
    """A world whose tally runs."""
    world = World(port)
    with world.tally.running():
        yield world
