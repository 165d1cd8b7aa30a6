"""Random histories of syncs, replays and discards, beside a table and a list in plain Python.

No record is ever lost: it is a row, or it was one until a later line, or it is rejected still, or
somebody discarded it. Every replay is held to what it says it did, also where it dies in between.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.errors import NotFoundError
from singerlake.format import times
from singerlake.lake import Lake
from singerlake.ops.rejected import replay as replaying
from tests.needs import MORE
from tests.ops.rejected.shop import EITHER, NUMBER, sync, table_of, totals
from tests.target.harness import record

DELETED = "_sdc_deleted_at"
SCHEMAS = {"number": NUMBER, "either": EITHER}
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

ROWS = st.tuples(
    st.integers(1, 3),
    st.sampled_from([1, 2, "x", "y", None]),
    st.booleans(),
    st.integers(0, 20),
)
"""A record's key and total, whether it is a deletion, and how old it is, in steps."""
SYNC = st.tuples(
    st.just("sync"), st.sampled_from([*SCHEMAS]), st.lists(ROWS, min_size=1, max_size=4)
)
STEPS = st.lists(
    st.one_of(
        SYNC,
        SYNC,
        st.tuples(st.just("replay"), st.booleans(), st.booleans()),
        st.tuples(st.just("discard"), st.sampled_from(["x", "y"]), st.none()),
    ),
    min_size=3,
    max_size=9,
)


@dataclass
class Model:
    """The table and its rejected records, as they should be.

    Attributes:
        newest: The time and the record of the newest line of each key.
        kept: The time of each rejected record, by its text.
        sent: How many records came, which gives each a time of its own.
    """

    schema: str = "number"
    newest: dict[int, tuple[datetime, dict[str, Any]]] = field(default_factory=dict)
    kept: dict[str, datetime] = field(default_factory=dict)
    sent: int = 0
    replayed: int = 0

    def fits(self, record: dict[str, Any]) -> bool:
        total = record["total"]
        return self.schema == "either" or isinstance(total, int)

    def time(self, age: int) -> datetime:
        """A time that no other record has."""
        self.sent += 1
        return START + timedelta(hours=self.sent - age, microseconds=self.sent)

    def rows(self) -> dict[int, Any]:
        """The totals as the table shows them: where they may be text, all are."""
        rows = {key: one["total"] for key, (_, one) in self.newest.items() if DELETED not in one}
        if self.schema == "number":  # what a column cannot hold is read as null
            return {key: total if isinstance(total, int) else None for key, total in rows.items()}
        return {key: None if total is None else str(total) for key, total in rows.items()}

    def replay(self, overwrite: bool, dies: bool) -> tuple[int, int, int]:
        """Replay; gives how many records became rows, were there, and stay."""
        taken, present = list[str](), list[str]()
        for text, time in self.kept.items():
            record = json.loads(text)
            there = self.newest.get(record["id"])
            if not self.fits(record):
                continue
            if not overwrite and there is not None and there[1] == record:
                present.append(text)
            elif overwrite or there is None or time > there[0]:
                taken.append(text)
        for text in sorted(taken, key=self.kept.__getitem__):
            record = json.loads(text)
            self.newest[record["id"]] = (self.kept[text], record)
        for text in [*taken, *([] if dies else present)]:
            del self.kept[text]
        self.replayed += len(taken)
        return len(taken), len(present), len(self.kept)


@MORE
@pytest.mark.usefixtures("many_cases")
@given(STEPS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_histories_of_replays(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    lake = Lake.open(str(tmp_path_factory.mktemp("replays") / "lake"), create=True)
    model = Model()
    for step in steps:
        _STEPS[step[0]](lake, model, *step[1:])
        _check(lake, model)


def _sync(lake: Lake, model: Model, schema: str, rows: list[Any]) -> None:
    model.schema = schema
    lines = []
    for key, total, deletes, age in rows:
        one = {"id": key, "total": total, **({DELETED: "2026-01-01T00:00:00Z"} if deletes else {})}
        time = model.time(age)
        lines.append(record("a", one, time_extracted=times.iso(time)))
        if model.fits(one):
            model.newest[key] = (time, one)
        else:
            model.kept[json.dumps(one)] = time
    sync(lake, *lines, schema=SCHEMAS[schema])


def _replay(lake: Lake, model: Model, overwrite: bool, dies: bool) -> None:
    if not _has_table(lake):
        return
    wanted = None
    try:
        with mock.patch.object(replaying, "settle", _dies if dies else replaying.settle):
            done = table_of(lake).rejected().replay(overwrite=overwrite)
        wanted = (done.replayed, done.present, done.kept)
    except NotFoundError:
        assert not model.kept
    except KeyboardInterrupt:
        pass
    expected = model.replay(overwrite, dies)
    assert wanted in (None, expected)


def _dies(*_: Any) -> None:
    raise KeyboardInterrupt


def _discard(lake: Lake, model: Model, total: str, _: None) -> None:
    if not _has_table(lake):
        return
    # A reason of today need not name the value: a record that is only too old has none.
    try:
        lines = [*table_of(lake).rejected(f'*"{total}"*')]
        done = table_of(lake).rejected(f'*"{total}"*').discard()
    except NotFoundError:
        assert not model.kept
        return
    assert done == len(lines)
    for line in lines:
        text = json.dumps(json.loads(line.text)["record"])
        assert json.loads(text)["total"] == total
        del model.kept[text]


_STEPS = {"sync": _sync, "replay": _replay, "discard": _discard}


def _has_table(lake: Lake) -> bool:
    return any(name.stream == "a" for name in lake.tables())


def _check(lake: Lake, model: Model) -> None:
    if not _has_table(lake):
        return
    assert totals(lake) == model.rows()
    try:
        kept = [json.loads(line.text) for line in table_of(lake).rejected()]
    except NotFoundError:
        kept = []
    assert sorted(json.dumps(one["record"]) for one in kept) == sorted(model.kept)
    entries = [one for one in table_of(lake).entries() if one.operation == "replay"]
    assert sum(one.metrics["replayed"] for one in entries) == model.replayed
