"""Bookmarks in a bucket: conditional writes by two pipelines at once, and a table turned back."""

from __future__ import annotations

import threading

from singerlake.lake import Lake
from singerlake.log import bookmarks
from singerlake.log.locks.lock import Waiting
from singerlake.ops.bookmark import bookmark_lock_of, delete_bookmark
from singerlake.storage.s3.store import S3Store
from tests.build import commit_rows
from tests.frozen import revert_here
from tests.pipeline import COLUMNS, ID, read, write
from tests.storage.conftest import no_aws_settings, s3_port, s3_store
from tests.target.harness import TAP

__all__ = ["no_aws_settings", "s3_port", "s3_store"]


def test_a_bookmark_in_a_bucket_goes_back_with_its_table(s3_store: S3Store) -> None:
    lake = Lake(s3_store)
    for number in (1, 2):
        state = {"tap_state": f'{{"bookmarks": {{"a": {number}}}}}'}
        commit_rows(lake, f"{TAP}.a", COLUMNS, ["id"], [{"id": number}], metadata=state)
    two = {"bookmarks": {"a": 2}}
    work = [threading.Thread(target=write, args=(s3_store, two)) for _ in range(2)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert read(s3_store) == {"bookmarks": {"a": 2}}
    with bookmark_lock_of(lake, ID, Waiting(wait_seconds=0)):
        revert_here(lake.find(f"{TAP}.a")[0], 1)
    assert read(s3_store) == {"bookmarks": {"a": 1}}
    assert bookmarks.ids(s3_store) == [ID]
    delete_bookmark(lake, ID)
    assert read(s3_store) is None
