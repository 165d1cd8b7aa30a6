"""Tables that are dropped, brought back and begun anew, as the tap and its targets see them."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.lake import Lake
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange, alter
from tests.build import commit_rows
from tests.faults import plain
from tests.tap.run import catalog_of, freeze, run

TABLE = "tap-shop.orders"
ID: dict[str, Any] = {"id": {"type": "integer"}}


def sync(lake: Lake, *ids: int, keys: tuple[str, ...] = ("id",)) -> None:
    commit_rows(lake, TABLE, ID, [*keys], [{"id": n} for n in ids])


def drop(lake: Lake) -> None:
    table = lake.find(TABLE)[0]
    drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)


def undrop(lake: Lake) -> None:
    undrop_table(lake.store, lake.find(TABLE)[0].snapshot(dropped=True), AlterOptions())


def said(lake: Lake, change: OverlayChange) -> None:
    table = lake.find(TABLE)[0]
    alter(table.store, table.snapshot(), change)


def load(target: Path, lines: bytes) -> list[int]:
    """Load messages into another lake; gives the ids in it then."""
    from target_singerlake.target import TargetSingerlake

    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        settings_ = {"lake": str(target), "tap_id": "copy"}
        TargetSingerlake(config=settings_).listen(io.BytesIO(lines))  # type: ignore[arg-type]
    table = plain.tables(plain.dump_folder(target)).get("copy.orders")
    return [] if table is None else [row["id"] for row in table.state()]


def test_a_dropped_table_is_in_no_catalog(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    sync(lake, 1)
    commit_rows(lake, "tap-shop.other", ID, ["id"], [{"id": 1}])
    first = run(lake)
    catalog = catalog_of(lake)
    drop(lake)
    assert [s["tap_stream_id"] for s in catalog_of(lake)["streams"]] == ["other"]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    again = run(lake, first.state)
    assert again.of("SCHEMA", "orders") == []
    assert again.state["bookmarks"]["orders"] == first.state["bookmarks"]["orders"]
    assert run(lake, catalog=catalog).of("SCHEMA", "orders") == []
    caplog.clear()
    assert run(lake, streams=["orders"]).messages == []
    assert "was dropped" in caplog.text
    undrop(lake)
    assert run(lake, first.state).records("orders") == []
    assert run(lake).records("orders") == [{"id": 1}]


def test_one_that_is_dropped_after_the_catalog_was_made_puts_nothing_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tap_singerlake.tap import TapSingerlake

    sync(lake, 1)
    sync_all = TapSingerlake.sync_all

    def late(self: TapSingerlake) -> None:
        assert list(self.streams) == ["orders"]
        drop(lake)
        sync_all(self)

    monkeypatch.setattr(TapSingerlake, "sync_all", late)
    assert run(lake).of("SCHEMA") == []


@pytest.mark.parametrize("anew", [(3,), ()])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_bookmark_of_before_the_drop_clears_the_target(
    lake: Lake, tmp_path: Path, anew: tuple[int, ...], mapped: bool
) -> None:
    more: dict[str, Any] = {"stream_maps": {"orders": {"id": "id"}}} if mapped else {}
    sync(lake, 1, 2)
    first = run(lake, **more)
    target = tmp_path / "target"
    assert load(target, first.out) == [1, 2]
    drop(lake)
    sync(lake, *anew)
    second = run(lake, first.state, **more)
    kinds = [kind for kind in second.kinds if kind != "STATE"]
    assert kinds[:3] == ["SCHEMA", "ACTIVATE_VERSION", "ACTIVATE_VERSION"]
    assert load(target, second.out) == [*anew]
    third = run(lake, second.state, **more)
    assert third.of("ACTIVATE_VERSION") == []
    assert load(target, third.out) == [*anew]
    # Who begins now gets just the rows of the new table.
    assert run(lake).of("ACTIVATE_VERSION") == []
    assert load(tmp_path / "fresh", run(lake).out) == [*anew]


def test_an_old_version_cannot_be_asked_for(lake: Lake) -> None:
    sync(lake, 1)
    freeze(lake, TABLE, rows=1)
    drop(lake)
    sync(lake, 2)
    with pytest.raises(Exception, match="went with the table"):
        run(lake, streams=["orders.1"])


STEPS = st.lists(
    st.sampled_from(["sync", "sync", "drop", "undrop", "read", "read"]), min_size=3, max_size=9
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, keyed=st.booleans())
def test_a_target_that_reads_on_gets_to_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], keyed: bool
) -> None:
    folder = tmp_path_factory.mktemp("lakes")
    lake = Lake.open(folder / "lake", create=True)
    state: dict[str, Any] | None = None
    dropped: bool | None = None
    number = 0
    sync(lake, 0, keys=("id",) if keyed else ())
    for step in [*steps, "sync", "read"]:
        if step == "sync":
            number += 1
            sync(lake, number, keys=("id",) if keyed else ())
            dropped = None
        elif step == "drop" and dropped is None:
            drop(lake)
            dropped = True
        elif step == "undrop" and dropped:
            undrop(lake)
            dropped = None
        elif step == "read" and dropped is None:
            part = run(lake, state)
            state = part.state
            found = load(folder / "target", part.out)
            dump = plain.dump_folder(folder / "lake")
            assert found == [row["id"] for row in plain.tables(dump)[TABLE].state()]


def test_nothing_that_was_said_of_a_dropped_table_goes_out_for_the_next(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    both = {**ID, "code": {"type": ["null", "string"]}}
    commit_rows(lake, TABLE, both, ["id"], [{"id": 1, "code": "a"}])
    said(lake, partial(says.with_name, name="code", new="name"))
    said(lake, partial(says.with_key, names=["name"]))
    before = run(lake)
    drop(lake)
    sync(lake, 2)
    out = run(lake, before.state)
    assert out.of("ACTIVATE_VERSION", "orders"), "what the target has is cleared"
    assert out.records("orders") == [{"id": 2}]
    assert run(lake, out.state).of("RECORD", "orders") == []
    assert {tuple(one["key_properties"]) for one in out.of("SCHEMA", "orders")} == {("id",)}
    said(lake, partial(says.with_name, name="id", new="number"))
    again = run(lake, out.state)
    assert [one["key_properties"] for one in again.of("SCHEMA", "orders")] == [["number"]]
    assert again.records("orders") == [{"number": 2}]
