"""Which streams there are, wherever the lake still says so."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.point import point
from tests.build import commit_rows
from tests.tap.run import catalog_of, freeze, run

INT = {"id": {"type": "integer"}}
WIDE = {**INT, "note": {"type": "string"}}


def names(lake: Lake, **settings: Any) -> list[str]:
    return [s["tap_stream_id"] for s in catalog_of(lake, **settings)["streams"]]


def lose(lake: Lake, *kinds: str) -> None:
    for stream in (Path(lake.store.uri) / "raw" / "tap_x").iterdir():
        if "catalogue" in kinds and stream.name == "catalogue.json":
            stream.unlink()
        elif "manifest" in kinds and stream.is_dir():
            (stream / "manifest.json").unlink()
        if "log" in kinds and stream.is_dir():
            shutil.rmtree(stream / "transactions")


KINDS = ("catalogue", "manifest", "log")
COMBINATIONS = [c for n in range(4) for c in itertools.combinations(KINDS, n)]


@pytest.mark.parametrize("lost", COMBINATIONS, ids=lambda c: "+".join(c) or "nothing")
def test_whatever_is_lost_every_row_is_read(lake: Lake, lost: tuple[str, ...]) -> None:
    commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": i} for i in range(5)], block_rows=2)
    commit_rows(lake, "tap_x.orders", WIDE, ["id"], [{"id": 5, "note": "x"}])
    commit_rows(lake, "tap_x.users", INT, ["id"], [{"id": 6}])
    whole = run(lake)
    lose(lake, *lost)
    out = run(lake)
    assert [r["id"] for r in out.records()] == [0, 1, 2, 3, 4, 5, 6]
    catalog = {s["stream"]: s for s in catalog_of(lake)["streams"]}
    assert list(catalog) == ["orders", "users"]
    assert catalog["orders"]["key_properties"] == ["id"]
    assert sorted(catalog["orders"]["schema"]["properties"]) == ["id", "note"]

    scanned = "manifest" in lost and "log" in lost
    assert (out.state == whole.state) is not scanned
    if scanned:  # a log that is made again later may number the same rows otherwise
        assert out.state["bookmarks"]["orders"] == {"transaction": 0, "commit": ""}
    again = run(lake, out.state)
    assert len(again.records()) == (7 if scanned else 0)


def test_a_catalogue_behind_the_log_hides_nothing(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    old = (Path(lake.store.uri) / "raw/tap_x/catalogue.json").read_bytes()
    commit_rows(lake, "tap_x.orders", WIDE, [], [{"id": 2, "note": "x"}])
    commit_rows(lake, "tap_x.users", INT, [], [{"id": 3}])
    (Path(lake.store.uri) / "raw/tap_x/catalogue.json").write_bytes(old)
    assert names(lake) == ["orders", "users"]
    out = run(lake)
    assert [r["id"] for r in out.records()] == [1, 2, 3]
    assert sorted(out.of("SCHEMA", "orders")[-1]["schema"]["properties"]) == ["id", "note"]


def test_the_catalog_tells_the_schema_of_the_version_that_is_read(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    freeze(lake, "tap_x.orders")
    commit_rows(lake, "tap_x.orders", WIDE, [], [{"id": 2, "note": "x"}])
    for settings, expected in (({}, ["id", "note"]), ({"table_version": 1}, ["id"])):
        (entry,) = catalog_of(lake, **settings)["streams"]
        assert sorted(entry["schema"]["properties"]) == expected


def test_streams_by_name_and_pattern(lake: Lake) -> None:
    for stream in ("orders", "order_lines", "users", "web.2", "odd*name"):
        commit_rows(lake, f"tap_x.{stream}", INT, [], [{"id": 1}])
    assert names(lake, streams=["users", "orders"]) == ["orders", "users"]
    assert names(lake, streams=["order*"]) == ["order_lines", "orders"]
    assert names(lake, streams=["odd*name"]) == ["odd*name"]
    assert names(lake, streams=["web.2"]) == ["web.2"]
    assert names(lake, streams=["w*.2"]) == ["web.2"]
    assert len(names(lake, streams=[])) == 5
    assert names(lake, streams=["tap_x.users"]) == ["users"]
    assert names(lake, streams=["order-lines"]) == ["order_lines"]
    with pytest.raises(NotFoundError, match="'ordres' of the setting streams: did you mean orders"):
        names(lake, streams=["users", "ordres"])
    with pytest.raises(NotFoundError, match="no stream matches 'Orders'"):
        names(lake, streams=["users", "Orders"])


def test_a_version_in_streams(lake: Lake) -> None:
    commit_rows(lake, "tap_x.a", INT, [], [{"id": 1}])
    commit_rows(lake, "tap_x.b", INT, [], [{"id": 2}])
    freeze(lake, "tap_x.a")
    freeze(lake, "tap_x.b")
    commit_rows(lake, "tap_x.a", INT, [], [{"id": 3}])
    commit_rows(lake, "tap_x.b", INT, [], [{"id": 4}])

    def ids(*streams: str) -> list[int]:
        return [r["id"] for r in run(lake, streams=list(streams)).records()]

    assert ids("a.1", "b") == [1, 2, 4]
    assert ids("*", "a.1") == [1, 2, 4]
    assert ids("a.1", "*") == [1, 2, 4]
    assert ids("*.1") == [1, 2]
    for table in map(lake.table, lake.tables()):
        point(lake.store, table.snapshot(), "current", "1")
    assert ids("a@current", "b") == [1, 2, 4]
    assert ids("*@current") == [1, 2]
    with pytest.raises(NotFoundError, match="has no pointer @next"):
        ids("a@next")
    commit_rows(lake, "tap_x.c@current", INT, [], [{"id": 6}])
    assert ids("c@current") == [6]
    commit_rows(lake, "tap_x.a.1", INT, [], [{"id": 5}])
    assert ids("a.1") == [1]  # as everywhere: version 1 of a, where there is an a
    with pytest.raises(UsageError, match="at version 1 and at 2"):
        ids("a.1", "a.2")
    with pytest.raises(NotFoundError, match="has no version '7'"):
        ids("a.7")


def test_two_taps_in_one_lake(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    commit_rows(lake, "tap_y.orders", INT, [], [{"id": 2}])
    commit_rows(lake, "tap_y.users", INT, [], [{"id": 3}])
    with pytest.raises(UsageError, match="setting tap_id"):
        names(lake)
    assert [r["id"] for r in run(lake, tap_id="tap_x").records()] == [1]
    assert [r["id"] for r in run(lake, tap_id="tap_y").records()] == [2, 3]
    assert names(lake, streams=["users"]) == ["users"]
    with pytest.raises(NotFoundError, match="did you mean tap_x or tap_y"):
        names(lake, tap_id="tap_z")


def test_a_state_of_one_tap_skips_nothing_of_another(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    commit_rows(lake, "tap_y.orders", INT, [], [{"id": 2}])
    state = run(lake, tap_id="tap_x").state
    assert [r["id"] for r in run(lake, state, tap_id="tap_y").records()] == [2]


@pytest.mark.parametrize(
    "stream", ["a b", "ünï/cödé", "..", "%2e", "dots.in.it", "CON", "new\nline", "{%s}", "x" * 150]
)
def test_odd_stream_names(lake: Lake, stream: str) -> None:
    commit_rows(lake, f"tap_x.{stream}", INT, ["id"], [{"id": 1}])
    out = run(lake)
    assert [m["stream"] for m in out.of("SCHEMA") + out.of("RECORD")] == [stream, stream]
    assert list(out.state["bookmarks"]) == [stream]
    assert run(lake, out.state).records() == []
    assert names(lake) == [stream]


def test_a_table_that_nobody_has_committed_to_yet_is_left_out(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    lake.store.put_if_absent(TableName("tap_x", "begun").lock("abcdefg"), b"{}")
    assert names(lake) == ["orders"]


def test_a_catalog_with_other_streams(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    commit_rows(lake, "tap_x.orders", {"any": True}, [], [{"any": 1}])
    orders: dict[str, Any] = {"tap_stream_id": "orders", "schema": {"properties": {"any": True}}}
    gone = {**orders, "tap_stream_id": "gone"}
    out = run(lake, catalog={"streams": [gone, orders]})
    assert out.records() == [{"any": 1}]
    assert "the lake lacks, or that the settings leave out: gone" in caplog.text
    commit_rows(lake, "tap_x.new", INT, [], [{"id": 1}])
    assert run(lake, catalog={"streams": [orders]}).records() == [{"any": 1}]


def test_the_method_says_that_the_log_is_followed(lake: Lake) -> None:
    commit_rows(lake, "tap_x.orders", INT, ["id"], [{"id": 1}])
    (entry,) = catalog_of(lake)["streams"]
    assert entry["replication_method"] == "LOG_BASED"
    assert "replication_key" not in entry


def test_no_lake_and_no_tables(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no lake"):
        names(Lake.open(str(tmp_path / "nowhere"), create=True))
    (tmp_path / "lake" / "raw" / "tap_x").mkdir(parents=True)
    (tmp_path / "lake" / "raw" / "tap_x" / "anything").touch()
    with pytest.raises(NotFoundError, match="has no tables yet"):
        names(lake)


@pytest.mark.parametrize("state", [{"bookmarks": []}, {"bookmarks": {"orders": 3}}])
def test_a_state_that_is_none(lake: Lake, state: dict[str, Any]) -> None:
    commit_rows(lake, "tap_x.orders", INT, [], [{"id": 1}])
    with pytest.raises(UsageError, match="bookmarks"):
        run(lake, state)


def test_a_dash_may_be_an_underscore_in_the_selection(lake: Lake) -> None:
    for table in ("tap-x.web-visits", "tap-x.a-b", "tap-x.a.b", "tap-y.other"):
        commit_rows(lake, table, INT, [], [{"id": 1}])
    assert names(lake, tap_id="tap_x", streams=["web_visits"]) == ["web-visits"]
    assert names(lake, streams=["tap_x.web_visits"]) == ["web-visits"]
    assert names(lake, streams=["tap-y.other"]) == ["other"]
    with pytest.raises(UsageError, match="could mean tap-x.a-b or tap-x.a.b"):
        names(lake, streams=["a_b"])
