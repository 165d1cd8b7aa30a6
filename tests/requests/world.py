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
from singerlake.log import checkpoint
from singerlake.storage.s3.store import S3Store
from singerlake_cli.main import cli
from tests import build
from tests.requests.tally import Tally
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, TOKEN, options
from tests.storage.plugins import s3_settings
from tests.tap import run as tap
from tests.target.batches import batch, jsonl
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

    def photos(self, *texts: str, outside: bool = False) -> Callable[[], None]:
        """A run of the target with one block, each of whose rows is a file.

        Args:
            texts: What is in them.
            outside: Whether they lie in the bucket, instead of in the messages.
        """
        file = {"type": "object", "format": "singer.file"}
        lines = [schema("photos", {"id": {"type": "integer"}, "photo": file}, ["id"])]
        uris = [f"data:,{text_}" for text_ in texts]
        uris = self.outside(*(text_.encode() for text_ in texts)) if outside else uris
        for id_, uri in enumerate(uris):
            lines.append(record("photos", {"id": id_, "photo": {"uri": uri}}))
        config = {**s3_settings(self._relay_port), "tap_id": TAP}
        config["file_roots"] = [f"s3://{BUCKET}/outside"]

        def work() -> None:
            run(self.uri, text([*lines, state({})]), **config)

        return work

    def outside(self, *texts: bytes) -> list[str]:
        """Objects of the lake's bucket that are not the lake's, each with a text; their URIs."""
        found = [f"s3://{BUCKET}/outside/{uuid.uuid4().hex}" for _ in texts]
        for uri, text_ in zip(found, texts, strict=True):
            key = uri.split("/", 3)[3]
            self.direct.store._client.put_object(Bucket=BUCKET, Key=key, Body=text_)  # type: ignore[attr-defined]
        return found

    def batches(self, *ids: int, **config: Any) -> Callable[[], None]:
        """A run of the target with a BATCH message of one file of the bucket for each row."""
        files = self.outside(*(jsonl([{"id": id_, "name": "x"}]) for id_ in ids))
        lines = [schema("s", COLUMNS, ["id"]), batch("s", *files), state({})]
        settings = {**s3_settings(self._relay_port), "tap_id": TAP, **config}
        return lambda: run(self.uri, text(lines), **settings) and None

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
