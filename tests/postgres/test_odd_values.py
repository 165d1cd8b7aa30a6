"""Values of PostgreSQL that a tap puts out otherwise than its own SCHEMA says, and odd ones.

The lake refuses the first in words and takes the second; unchecked, both go through unchanged.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.errors import SingerlakeError
from tests.postgres.cluster import Cluster
from tests.postgres.plugins import MELTANOLABS, PIPELINEWISE, Tap
from tests.postgres.road import OF_THE_RUN, Road, without
from tests.target.harness import run as sync_into

pytestmark = pytest.mark.usefixtures("environments")

ODD = [
    "of_domain", "number_of_object", "grid", "holes", "without_end", "scalars", "tiny",
    "not_a_number", "for_ever",
]  # fmt: skip


@pytest.mark.parametrize("tap", [MELTANOLABS, PIPELINEWISE], ids=lambda tap: tap.plugin)
def test_refused_in_words_or_taken_as_it_is(cluster: Cluster, tap: Tap, tmp_path: Path) -> None:
    streams = [("odd", table) for table in ODD]
    road = Road(cluster, tap, tmp_path, streams)
    messages = road.read()
    for _, table in streams:
        own = _of_stream(messages, f"odd-{table}")
        assert b'"RECORD"' in own
        if table not in tap.refused:
            sync_into(tmp_path / table, own)
        else:
            with pytest.raises(SingerlakeError) as refused:
                sync_into(tmp_path / table, own)
            assert tap.refused[table] in str(refused.value), table

    messages = messages.replace(b"Infinity", b"null")  # no target takes what is no JSON
    road.write(messages, validate_records=False)
    road.replay()
    for key in streams:
        straight, through = road.loaded("direct", *key), road.loaded("replayed", *key)
        assert straight, key
        assert without(through, OF_THE_RUN) == without(straight, OF_THE_RUN), key


def _of_stream(messages: bytes, stream: str) -> bytes:
    lines = messages.splitlines(keepends=True)
    return b"".join(line for line in lines if json.loads(line).get("stream") == stream)
