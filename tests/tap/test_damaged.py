"""One damaged table keeps no other from being read, and the run says so at its end."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from tap_singerlake.tap import TapSingerlake
from tests.build import commit_rows
from tests.tap.run import Run, catalog_of, config_of, run, select, start

INT = {"id": {"type": "integer"}}
STREAMS = ["a", "b", "c", "d"]


@pytest.fixture
def damaged(lake: Lake) -> Lake:
    """Of four tables the second has a bad block in its second transaction."""
    for stream in STREAMS:
        for start_ in (0, 3):
            rows = [{"id": n} for n in range(start_, start_ + 3)]
            commit_rows(lake, f"tap_x.{stream}", INT, ["id"], rows)
    _spoil_block(lake, "b")
    return lake


def _spoil_block(lake: Lake, stream: str) -> None:
    table = lake.table(TableName("tap_x", stream))
    block = table.snapshot().blocks[-1]
    path = Path(lake.store.uri) / table.name.data(block.file)
    data = bytearray(path.read_bytes())
    data[block.offset + block.length // 2] ^= 0xFF
    path.write_bytes(data)


def _process(lake: Lake) -> tuple[int, Run, str]:
    process = start(None, "--config", json.dumps(config_of(lake)))
    out, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors
    return process.returncode, Run(out), errors.decode()


@pytest.mark.usefixtures("processes")
def test_the_others_go_on_and_the_exit_code_tells(damaged: Lake) -> None:
    code, part, errors = _process(damaged)
    assert code == 5
    rows = {stream: [r["id"] for r in part.records(stream)] for stream in STREAMS}
    assert rows == {"a": list(range(6)), "b": [0, 1, 2], "c": list(range(6)), "d": list(range(6))}
    assert part.kinds[-1] == "STATE"
    bookmarks = part.state["bookmarks"]
    assert {s: bookmarks[s]["transaction"] for s in STREAMS} == {"a": 2, "b": 1, "c": 2, "d": 2}
    assert errors.splitlines()[-1].startswith("tap-singerlake: block 2 of tap_x.b")


@pytest.mark.usefixtures("processes")
def test_the_next_run_brings_the_rest_once_it_is_mended(damaged: Lake) -> None:
    path = next((Path(damaged.store.uri) / "raw").rglob("b-*.singer.gz"))
    _code, part, _ = _process(damaged)
    _spoil_block(damaged, "b")  # the same bits once more
    assert path.exists()
    rest = run(damaged, part.state)
    assert [(m["stream"], m["record"]["id"]) for m in rest.of("RECORD")] == [
        ("b", n) for n in (3, 4, 5)
    ]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("catalogue", [True, False])
def test_a_damaged_log_is_no_hindrance_either(damaged: Lake, catalogue: bool) -> None:
    folder = Path(damaged.store.uri) / "raw" / "tap_x"
    catalog = catalog_of(damaged)
    for path in (folder / "c" / "transactions").glob("*.json"):
        path.write_bytes(b"{")
    (folder / "c" / "manifest.json").unlink(missing_ok=True)
    if not catalogue:
        (folder / "catalogue.json").unlink()
    code, part, errors = _process(damaged)
    assert code == 5
    assert {m["stream"] for m in part.of("RECORD")} == {"a", "b", "d"}
    assert not part.state["bookmarks"].get("c")
    last = errors.splitlines()[-1]
    assert last.startswith("tap-singerlake: 2 tables cannot be read, tap_x.")
    assert "tap_x.b" in last
    assert "tap_x.c" in last
    with pytest.raises(DamagedError):
        run(damaged, catalog=catalog)


@pytest.mark.parametrize("how", ["deselected", "not in the catalog"])
def test_a_damaged_log_that_nobody_asked_for_is_only_warned_of(
    lake: Lake, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    for stream in ("a", "c"):
        commit_rows(lake, f"tap_x.{stream}", INT, ["id"], [{"id": 1}])
    whole = catalog_of(lake)
    catalog = select(whole, "c", selected=False)
    if how != "deselected":
        catalog["streams"] = [s for s in whole["streams"] if s["tap_stream_id"] != "c"]
    folder = Path(lake.store.uri) / "raw" / "tap_x"
    for path in (folder / "c" / "transactions").glob("*.json"):
        path.write_bytes(b"{")
    (folder / "c" / "manifest.json").unlink(missing_ok=True)
    (folder / "catalogue.json").unlink()
    with caplog.at_level(logging.WARNING):
        part = run(lake, catalog=catalog)
    assert {m["stream"] for m in part.of("RECORD")} == {"a"}
    # Another test of this process may have had the SDK log its counts.
    warned = [r for r in caplog.records if r.levelno >= logging.WARNING]
    [said] = [r.getMessage() for r in warned]
    assert "tap_x/c" in said
    assert said.endswith("the catalog does not select it")
    with pytest.raises(DamagedError):
        run(lake, catalog=select(catalog, "c", selected=True) if how == "deselected" else whole)


@pytest.mark.usefixtures("processes")
def test_discovery_lists_the_others(damaged: Lake) -> None:
    folder = Path(damaged.store.uri) / "raw" / "tap_x"
    (folder / "catalogue.json").unlink()
    for path in (folder / "c" / "transactions").glob("*.json"):
        path.write_bytes(b"{")
    (folder / "c" / "manifest.json").unlink(missing_ok=True)
    process = start(None, "--config", json.dumps(config_of(damaged)), "--discover")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 5
    assert [s["tap_stream_id"] for s in json.loads(out)["streams"]] == ["a", "b", "d"]
    assert b"Traceback" not in errors


def test_one_stream_by_itself_fails_at_once(damaged: Lake) -> None:
    tap = TapSingerlake(config=config_of(damaged))
    with pytest.raises(DamagedError, match="tap_x.b"):
        tap.streams["b"].sync()
