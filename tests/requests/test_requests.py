"""Each operation asks the store for what docs/internals/requests.md says, and for nothing else."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from singerlake.log import head_file
from singerlake.storage.s3 import uploads
from tests.ops.vacuum.plain_table import freeze
from tests.requests.budget import BUDGETS, hold
from tests.requests.page import PAGE, reasons
from tests.requests.world import TAP, World


def test_the_page_adds_up() -> None:
    numbers = {"n": 3, "k": 5, "t": 7, "b": 11, "i": 13, "e": 17}
    for name, budget in BUDGETS.items():
        for each in (dict.fromkeys("nktbie", 1), numbers):
            assert budget.spent(**each).total() == budget.sum(**each), name


def test_the_pages_examples_are_right() -> None:
    words = " ".join(PAGE.read_text().split())
    said = re.search(r"makes (\d+) requests; .* needs (\d+) to .*, and (\d+) to ", words)
    rows = ("sync", "tap", "tap-nothing")
    assert said is not None
    assert [int(one) for one in said.groups()] == [BUDGETS[row].sum(n=10, k=1) for row in rows]


def test_every_request_on_the_page_has_a_reason() -> None:
    used = {kind.partition(" (")[0] for budget in BUDGETS.values() for kind, _ in budget.requests}
    assert used == set(reasons())


def test_open(world: World) -> None:
    world.fill()
    hold("open", world.count(world.lake))


@pytest.mark.parametrize("t", [0, 3])
def test_a_table(world: World, t: int) -> None:
    world.fill()
    with world.no_checkpoints():
        world.fill(transactions=t)
    table = world.lake().table(world.table_name())
    hold("table-tail" if t else "table", world.count(table.snapshot), t=t)


def test_commands_that_read_metadata(world: World) -> None:
    streams = ("s", "other", "third")
    for stream in streams:
        world.fill(stream, transactions=2)
    hold("ls", world.count(world.command("ls")), n=3)
    hold("ls-sizes", world.count(world.command("ls", "--sizes")), n=3)
    for command in ("show", "versions"):
        hold(command, world.count(world.command(command, f"{TAP}.s")))
    hold("history", world.count(world.command("history", f"{TAP}.s")), t=2)
    hold("history", world.count(world.command("history", f"{TAP}.s", "--limit", "1")), t=1)


def test_annotations_and_their_pages(world: World, tmp_path: Path) -> None:
    for stream in ("s", "other", "third"):
        world.fill(stream, transactions=2)
    hold("annotate", world.count(world.command("annotate", f"{TAP}.s", "--owner", "ada")))
    for _ in range(2):  # nothing less the second time: only pages are kept
        hold("docs", world.count(world.command("docs", "--out", str(tmp_path / "site"))), n=3)


def test_sync_into_a_long_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_file, "SMALL_BYTES", 0)
    world.fill("s0")
    with world.no_checkpoints():
        world.fill("s0")
        hold("sync-long", world.count(world.sync(1, 1, start=10)), k=1)
        hold("sync-long", world.count(world.sync(1, 3, start=20)), k=3)


def test_sync(world: World) -> None:
    hold("sync-first", world.count(world.sync(1, 2)), k=2)
    hold("sync", world.count(world.sync(1, 1, start=10)), n=1, k=1)
    hold("sync", world.count(world.sync(1, 5, start=20)), n=1, k=5)
    world.fill("s1")
    world.fill("s2")
    hold("sync", world.count(world.sync(3, 2, start=30)), n=3, k=2)
    hold("sync-nothing", world.count(world.sync(3, 0)), n=3)


def test_sync_of_files(world: World) -> None:
    world.photos("a")()
    world.photos("b", "c")()
    hold("sync-files", world.count(world.photos("d", "e", "f", "a")), k=3, b=2)


def test_files_of_a_bucket(world: World) -> None:
    world.photos("a", outside=True)()
    hold("sync-files-outside", world.count(world.photos("b", "c", "d", outside=True)), k=3, b=1)


def test_files_on_their_way_out(world: World, tmp_path: Path) -> None:
    world.photos("a", "b", "c")()
    world.photos("d")()
    table, digest = f"{TAP}.photos", sha256(b"d").hexdigest()
    hold("files-ls-first", world.count(world.command("files", "ls", table)), k=2)
    hold("files-ls", world.count(world.command("files", "ls", table)))
    into = str(tmp_path / "one")
    hold("files-get", world.count(world.command("files", "get", table, digest, "--out", into)))
    into = str(tmp_path / "all")
    hold("files-export", world.count(world.command("files", "export", table, into)), k=3)
    hold("files-export", world.count(world.command("files", "export", table, into)), k=0)


def test_batches(world: World) -> None:
    world.fill()
    hold("sync-batches", world.count(world.batches(1, 2, 3)), k=3)
    hold("sync-batches-clean", world.count(world.batches(1, 2, batch_clean_up=True)), k=2)
    root = world.outside(b"")[0]
    config = {"encoding": {"format": "jsonl", "compression": "gzip"}, "storage": {"root": root}}
    for rows, files in ((10_000, 1), (4, 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tap_singerlake.batches.ROWS", rows)
            out = world.count(lambda: world.tap(tap_id=TAP, batch_config=config))
        hold("tap-batches", out, b=3, k=files)


def test_deleting_a_version(world: World) -> None:
    world.fill()
    freeze(world.direct.table(world.table_name()), at=1)
    delete = world.command("versions", f"{TAP}.s", "--delete", "1", "--reason", "wrong")
    hold("versions-delete", world.count(delete))


def test_sync_of_new_tables(world: World) -> None:
    world.fill("another")
    hold("sync-new", world.count(world.sync(3, 2)), n=3, k=2)


def test_a_large_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * 2**20)
    staged = world.lake().store.stage()
    staged.write(bytes(11 * 2**20))
    key = world.table_name().data("AAAAAAA/s-large.singer.gz")
    hold("large", world.count(lambda: staged.publish(key)), k=3)


def test_a_check_reads_each_object_once(world: World) -> None:
    world.fill(transactions=3)
    found = world.count(world.command("erase", "--search", "--text", "nobody"))
    hold("erase-check", found, t=3, k=3)


def test_tap(world: World) -> None:
    for stream in ("s", "other"):
        world.fill(stream, transactions=2, blocks=4)  # a request a file, not a block
    world.fill("left-out")
    runs = []
    streams = ["s", "other"]
    hold("tap", world.count(lambda: runs.append(world.tap(tap_id=TAP, streams=streams))), n=2, k=2)
    (first,) = runs
    assert len(first.records()) == 2 * 2 * 8
    again = world.count(lambda: world.tap(first.state, tap_id=TAP, streams=streams))
    hold("tap-nothing", again, n=2)
    one = world.count(lambda: world.tap(tap_id=TAP, streams=["s"]))
    hold("tap", one, n=1, k=2)
    with world.no_checkpoints():
        world.fill(transactions=3)
    tail = world.count(lambda: world.tap(first.state, tap_id=TAP, streams=["s"]))
    hold("tap-tail", tail, t=3, k=3)


def test_neighbours_beyond_a_piece_come_by_more_requests(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill(blocks=6)
    blocks = world.direct.table(world.table_name()).snapshot().blocks
    longest = max(block.length for block in blocks)
    monkeypatch.setattr("singerlake.log.blocks.RUN_BYTES", 2 * longest)
    hold("tap", world.count(lambda: world.tap(tap_id=TAP)), n=1, k=3)
