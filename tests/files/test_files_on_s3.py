"""Files from buckets, into a lake in a bucket."""

from __future__ import annotations

import hashlib
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InputError
from singerlake.files.sources import MissingFileError, SourceOptions, Sources
from singerlake.format import file_paths
from singerlake.lake import Lake
from singerlake.storage.s3 import uploads
from singerlake.storage.s3.store import S3Store
from singerlake.storage.unfinished import RESUMED_BYTES
from tests.files.photos import NAME, PHOTOS, stored
from tests.storage.conftest import BUCKET, no_aws_settings, options, s3_port
from tests.storage.plugins import s3_settings, start
from tests.storage.relay import Fault, Relay
from tests.tap import run as tap
from tests.target.harness import TAP, record, run, schema, text

__all__ = ["no_aws_settings", "s3_port"]


@pytest.fixture
def folder(s3_port: int) -> Iterator[S3Store]:
    """A place in the bucket, of its own."""
    store = S3Store.open(
        f"s3://{BUCKET}/{uuid.uuid4().hex}", options(f"http://127.0.0.1:{s3_port}")
    )
    store._client.create_bucket(Bucket=BUCKET)
    yield store


def read(store: S3Store, uri: str, *roots: str) -> bytes:
    return b"".join(Sources(SourceOptions(roots, store=store._options)).pieces(uri))


def test_files_go_from_bucket_to_bucket(
    folder: S3Store, s3_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 5 << 20)  # the least that S3 takes
    large = b"x" * (11 << 20)
    folder.put_if_absent("in/a b/ü.jpg", b"small")
    folder.put_if_absent("in/large", large)
    lake = f"{folder.uri}/lake"
    lines = [schema("photos", PHOTOS, ["id"])]
    for id_, name in enumerate(("a b/ü.jpg", "large", "large")):
        photo = {"uri": f"{folder.uri}/in/{name}", "size": None}
        lines.append(record("photos", {"id": id_, "photo": photo}))
    run(lake, lines, file_roots=[f"{folder.uri}/in"], **s3_settings(s3_port))
    there = S3Store.open(lake, folder._options)
    found = [b"".join(there.pieces(NAME.key(path), 4 << 20)) for path in stored(there)]
    assert sorted(found, key=len) == [b"small", large]
    assert NAME.tap == TAP
    out = tap.run(Lake.open(lake, folder._options), **s3_settings(s3_port))
    assert {row["photo"]["uri"] for row in out.records()} == {
        f"{lake}/{NAME.key(path)}" for path in stored(there)
    }
    copy = f"{folder.uri}/copy"
    run(copy, out.out, file_roots=[lake], **s3_settings(s3_port))
    assert stored(S3Store.open(copy, folder._options)) == stored(there)


@pytest.mark.usefixtures("processes")
def test_an_upload_that_was_killed_is_gone_on_with(
    folder: S3Store, s3_port: int, tmp_path: Path
) -> None:
    size = RESUMED_BYTES + 1
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
        file.write(b"a large file, with holes")
    number_of_parts = -(-size // uploads.PART_BYTES)
    lines = [
        schema("photos", PHOTOS, ["id"]),
        record("photos", {"id": 1, "photo": {"uri": "large"}}),
    ]
    lake = f"{folder.uri}/lake"
    with Relay(s3_port).running() as relay:
        config = {**s3_settings(s3_port), "aws_endpoint_url": relay.url, "lake": lake}
        config |= {"tap_id": TAP, "file_roots": [str(tmp_path)]}
        targets = [start("target_singerlake", tmp_path, config) for _ in range(2)]
        relay.fail(Fault("PUT", None, part="partNumber=6", meanwhile=targets[0].kill))
        targets[0].communicate(text(lines))
        assert targets[0].returncode == -signal.SIGKILL
        there = S3Store.open(lake, folder._options)
        (left,) = there.leftovers()
        assert left.bytes >= 2 * uploads.PART_BYTES
        relay.seen.clear()
        _, errors = targets[1].communicate(text(lines))
        assert targets[1].returncode == 0, errors
        sent = relay.requests("PUT", "partNumber=")
    # Parts that were on their way when it was killed may have come since.
    assert 1 <= len(sent) <= number_of_parts - left.bytes // uploads.PART_BYTES
    [path] = stored(there)
    assert left.name.startswith(NAME.key(path))
    hashed = hashlib.sha256()
    for piece in there.pieces(NAME.key(path), 4 << 20):
        hashed.update(piece)
    assert hashed.hexdigest() == file_paths.digest_in(path)
    assert list(there.leftovers()) == []


def test_only_what_is_below_a_root_is_asked_for(folder: S3Store) -> None:
    folder.put_if_absent("in/a", b"a")
    folder.put_if_absent("inner", b"s")
    root = f"{folder.uri}/in/"
    assert read(folder, f"{root}a", root) == b"a"
    with pytest.raises(MissingFileError):
        read(folder, f"{root}b", root)
    foreign = f"s3://foreign/{folder.uri.rpartition('/')[2]}/in/a"
    for uri in (f"{folder.uri}/inner", f"{root}../inner", foreign, f"{root}", f"{root}/a"):
        with pytest.raises(InputError, match="is rejected"):
            read(folder, uri, root)


def test_an_object_that_is_replaced_while_it_is_read(folder: S3Store) -> None:
    folder.put_if_absent("a", b"a" * (9 << 20))
    pieces: Any = Sources(SourceOptions((folder.uri,), store=folder._options)).pieces(
        f"{folder.uri}/a"
    )
    assert len(next(pieces)) == 4 << 20
    folder.replace("a", b"b" * (9 << 20), None)
    with pytest.raises(InputError, match="changed while it was read"):
        list(pieces)
