"""Files of records in buckets of Google and containers of Azure, out and in again."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from singerlake.errors import InputError
from singerlake.storage.opening import open_store
from target_singerlake.batches import files
from target_singerlake.batches.files import ObjectBatchFile
from tests import batch_plugins as sdk
from tests.storage.services import CONTAINER, Service, azure, google, no_settings, service
from tests.tap.run import run as tap
from tests.tap.test_batches import filled
from tests.target import harness
from tests.target.batches import rows_of

__all__ = ["azure", "google", "no_settings", "service"]


def test_other_services_both_ways(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = filled(tmp_path)
    place = f"{service.scheme}://{CONTAINER}/batches-{uuid.uuid4().hex}"
    reach = {"batch_s3": service.settings()}
    out = tap(lake, **sdk.config(f"{place}/in", "jsonl", batch_size=4), **reach)
    [first, *_] = [uri for message in out.of("BATCH") for uri in message["manifest"]]
    assert first.startswith(f"{place}/in/b-")
    config = {**reach, "batch_roots": [f"{place}/in"], "batch_clean_up": True}
    with pytest.raises(InputError, match="outside of the allowed"):
        harness.run(tmp_path / "none", out.out, **{**config, "batch_roots": [f"{place}/other"]})

    store = open_store(place, service.options())
    key = first.removeprefix(f"{place}/")
    was = store.get(key).data
    with monkeypatch.context() as patch:
        patch.setattr(files, "PIECE_BYTES", 1)
        bucket, whole = f"{service.scheme}://{CONTAINER}", first.split("/", 3)[3]
        pieces = ObjectBatchFile(bucket, whole, service.options())._pieces()
        next(pieces)
        store.replace(key, b"x" + was[1:], None)
        with pytest.raises(InputError, match="was changed while it was read"):
            list(pieces)
    store.replace(key, was, None)

    harness.run(tmp_path / "files", out.out, **config)
    harness.run(tmp_path / "lines", tap(lake).out)
    assert rows_of(tmp_path / "files", "s") == rows_of(tmp_path / "lines", "s")
    with pytest.raises(InputError, match="does not exist"):
        harness.run(tmp_path / "again", out.out, **config)
